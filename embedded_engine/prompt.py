"""Makes prompt tokens of a request, so that a client's words never become control tokens.

A raw text is tokenised as text: what looks like a control token in it stays text. A conversation goes through the
model's template, whose own control texts must become control tokens while those of the client must not. That is done
twice:

1. *As the model was trained.* The conversation is rendered as it is, except that an unguessable mark (digits, which
survive
   every string function) breaks each control text inside the client's strings. The result is cut at the marks and
   tokenised with control tokens. For a conversation without such texts there is no mark and the tokens are exactly the
   reference's, merges across the seams of template and content included; trimming, slicing and tests in the template
   see the real content.
2. *As an audit.* The conversation is rendered again with an opaque stand-in for each client string (its outer white
space kept,
   as templates trim). Control tokens of this rendering can only be the template's.

Both must have the same control tokens in the same order. When they don't (a template that changes with the content, or
content that forms a control text once the template has cut or joined it) the audited rendering is used, with each
client string tokenised as text in its place: safe first, then faithful.

Roles are not the client's words: templates build control texts from them, so only the known ones pass.
"""

import re
import secrets
from collections.abc import Sequence

from embedded_engine.chat_template import ChatTemplate
from embedded_engine.errors import InvalidMessages, InvalidRequest, NoChatTemplate
from embedded_engine.kernels.port import Kernels
from embedded_engine.messages import ChatMessage
from embedded_engine.vocabulary import Vocabulary

__all__ = ["PromptReader"]

_ROLES = ("system", "developer", "user", "assistant", "tool")


class PromptReader:
    """Reads prompts for one model; safe to use from several threads."""

    def __init__(self, kernels: Kernels, vocabulary: Vocabulary) -> None:
        self._kernels = kernels
        self._vocabulary = vocabulary
        self._template: ChatTemplate | None = None
        self._no_template = "this model has no chat template: it completes text, but does not chat"
        facts = kernels.facts
        if facts.chat_template is not None:
            bos, eos = (vocabulary.control.get(token, "") for token in (facts.bos_token, facts.eos_token))
            try:
                self._template = ChatTemplate(facts.chat_template, bos_text=bos, eos_text=eos)
            except NoChatTemplate as error:
                self._no_template = str(error)

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be rendered."""
        return self._template is not None

    def read_text(self, text: str) -> list[int]:
        """The tokens of a raw prompt, with what the model expects around one.

        Raises:
            InvalidRequest: The text is not Unicode.
        """
        _check_unicode(text, "prompt")
        return self._kernels.tokenize(text, add_special=True, parse_special=False)

    def read_messages(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The tokens of a conversation, up to where the answer begins.

        Raises:
            NoChatTemplate: The model has no usable template.
            InvalidMessages: There are none, a role is unknown, or the template refuses them.
            InvalidRequest: A text is not Unicode.
        """
        template = self._template
        if template is None:
            raise NoChatTemplate(self._no_template, param="messages")
        _check_messages(messages)
        mark = str(10**29 + secrets.randbelow(9 * 10**29))
        faithful = self._read_marked(template.render([self._marked(message, mark) for message in messages]), mark)
        stand_ins = _StandIns(mark)
        rendering = template.render([stand_ins.replace(message) for message in messages])
        audited = self._read_stand_ins(rendering, stand_ins)
        tokens = faithful if self._control_of(faithful) == self._control_of(audited) else audited
        bos = self._kernels.facts.bos_token
        if self._kernels.facts.adds_bos and bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def _marked(self, message: ChatMessage, mark: str) -> dict[str, str]:
        marked = {"role": message.role, "content": self._vocabulary.break_control_text(message.content, mark)}
        if message.name is not None:
            marked["name"] = self._vocabulary.break_control_text(message.name, mark)
        return marked

    def _read_marked(self, rendering: str, mark: str) -> list[int]:
        return [
            token
            for index, passage in enumerate(rendering.split(mark))
            for token in self._tokenize(passage, parse_special=True, begins=index == 0)
        ]

    def _read_stand_ins(self, rendering: str, stand_ins: "_StandIns") -> list[int]:
        tokens: list[int] = []
        for index, passage in enumerate(stand_ins.pattern.split(rendering)):
            if index % 2:  # the pattern's group: the number of a client string
                tokens += self._tokenize(stand_ins.originals[int(passage)], parse_special=False, begins=False)
            else:
                tokens += self._tokenize(passage, parse_special=True, begins=index == 0)
        return tokens

    def _tokenize(self, passage: str, *, parse_special: bool, begins: bool) -> list[int]:
        """The tokens of a passage; only at the beginning with the space that some tokenizers put before every text."""
        if not passage:
            return []
        if begins or not self._vocabulary.adds_space:
            return self._kernels.tokenize(passage, add_special=False, parse_special=parse_special)
        lead = self._kernels.tokenize("\n", add_special=False, parse_special=False)
        return self._kernels.tokenize("\n" + passage, add_special=False, parse_special=parse_special)[len(lead) :]

    def _control_of(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token in self._vocabulary.control]


class _StandIns:
    """Opaque numbers in place of the client's strings."""

    def __init__(self, nonce: str) -> None:
        self.originals: list[str] = []
        self.pattern = re.compile(rf"{nonce}(\d{{8}})")
        self._nonce = nonce

    def replace(self, message: ChatMessage) -> dict[str, str]:
        replaced = {"role": message.role, "content": self._stand_in(message.content)}
        if message.name is not None:
            replaced["name"] = self._stand_in(message.name)
        return replaced

    def _stand_in(self, text: str) -> str:
        core = text.strip()
        if not core:
            return text
        before = text[: len(text) - len(text.lstrip())]
        after = text[len(text.rstrip()) :]
        self.originals.append(core)
        return f"{before}{self._nonce}{len(self.originals) - 1:08d}{after}"


def _check_messages(messages: Sequence[ChatMessage]) -> None:
    if not messages:
        raise InvalidMessages("there must be at least one message", param="messages")
    for index, message in enumerate(messages):
        if message.role not in _ROLES:
            raise InvalidMessages(
                f"role {message.role!r} is not one of {', '.join(_ROLES)}", param=f"messages[{index}].role"
            )
        _check_unicode(message.content, f"messages[{index}].content")
        _check_unicode(message.name or "", f"messages[{index}].name")


def _check_unicode(text: str, param: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{param} is not Unicode text: {error.reason}", param=param) from error
