"""Makes prompt tokens of a request, so that a client's words never become control tokens.

A raw text is tokenised as text: what looks like a control token in it stays text. A conversation goes through the
model's template, whose own control texts must become control tokens while those of the client must not. That is done
twice:

1. *As the model was trained.* The conversation is rendered as it is, except that an unguessable mark (digits, which
survive
   every string function) breaks each control text inside the client's words. The result is cut at the marks and
   tokenised with control tokens. For a conversation without such texts there is no mark and the tokens are exactly the
   reference's, merges across the seams of template and content included; trimming, slicing and tests in the template
   see the real content.
2. *As an audit.* The conversation is rendered again with an opaque stand-in for each of the client's words. Control
   tokens of this rendering can only be the template's.

Both must have the same control tokens in the same order. When they don't (a template that changes with the content, or
content that forms a control text once the template has cut or joined it) the audited rendering is used, with each of
the client's words tokenised as text in its place: safe first, then faithful.

The client's words are contents, names, tool definitions, calls, results, and what else it gives the template. Roles
are not: templates build control texts from them, so only the known ones pass. Control tokens are those of the
vocabulary, and the marks of thinking and of tool calls where they are tokens of their own.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embedded_engine.chat_template import ChatTemplate, TemplateTypeError
from embedded_engine.client_words import ControlTexts, StandIns, replaced
from embedded_engine.conversation import Conversation, check_conversation, check_unicode, template_variables
from embedded_engine.errors import NoChatTemplate
from embedded_engine.kernels.port import Kernels
from embedded_engine.messages import ChatMessage
from embedded_engine.thinking import PAIRS, ThinkingMarks, marks_of
from embedded_engine.tools.families import DEFAULT, FAMILIES, Family, family_of
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Prompt", "PromptReader"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt that was read.

    Attributes:
        tokens: Its token ids.
        thinking: Whether it ends inside a thought.
    """

    tokens: list[int]
    thinking: bool = False


class PromptReader:
    """Reads prompts for one model; safe to use from several threads.

    Args:
        kernels: The model.
        vocabulary: Its tokens.
        template: A chat template in place of the model's own.

    Attributes:
        family: How the model writes tool calls.
        marks: How it marks its thinking; None where its template does not think.
    """

    def __init__(self, kernels: Kernels, vocabulary: Vocabulary, *, template: str | None = None) -> None:
        self._kernels = kernels
        self._vocabulary = vocabulary
        self._template: ChatTemplate | None = None
        self._no_template = "this model has no chat template: it completes text, but does not chat"
        self._knows_tools = False
        self.family: Family = DEFAULT
        self.marks: ThinkingMarks | None = None
        facts = kernels.facts
        source = facts.chat_template if template is None else template
        if source is not None:
            bos, eos = (vocabulary.control.get(token, "") for token in (facts.bos_token, facts.eos_token))
            try:
                self._template = ChatTemplate(source, bos_text=bos, eos_text=eos)
            except NoChatTemplate as error:
                self._no_template = str(error)
                _logger.warning("conversations are refused: %s", error)
            else:
                self._look_at(self._template)
        marks = _single_tokens(kernels, vocabulary)
        self._control = frozenset(token for token in (*vocabulary.control, *marks) if token is not None)
        self._control_texts = ControlTexts((*vocabulary.control.values(), *marks.values()))

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be rendered."""
        return self._template is not None

    def read_text(self, text: str) -> list[int]:
        """The tokens of a raw prompt, with what the model expects around one.

        Raises:
            InvalidRequest: The text is not Unicode.
        """
        check_unicode(text, "prompt")
        return self._kernels.tokenize(text, add_special=True, parse_special=False)

    def read_passage(self, text: str) -> list[int]:
        """The tokens of a text that stands within another, with nothing added; control-token text stays text.

        Raises:
            InvalidRequest: The text is not Unicode.
        """
        check_unicode(text, "prediction")
        return self._tokenize(text, parse_special=False, begins=False)

    def read_messages(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The tokens of a conversation without tools; see `read_conversation`."""
        return self.read_conversation(Conversation(messages=messages)).tokens

    def read_conversation(self, conversation: Conversation) -> Prompt:
        """A conversation, up to where the answer begins, or goes on: what of it has begun follows as mere text.

        Raises:
            NoChatTemplate: The model has no usable template.
            InvalidMessages: There are none, a role is unknown, or the template refuses them.
            InvalidRequest: A text is not Unicode, or a variable is not the client's to set.
        """
        template = self._template
        if template is None:
            raise NoChatTemplate(self._no_template, param="messages")
        check_conversation(conversation)
        variables = template_variables(conversation, knows_tools=self._knows_tools)
        try:
            prompt = self._read(template, variables)
        except TemplateTypeError:
            if not any(message.calls for message in conversation.messages):
                raise
            in_text = template_variables(conversation, knows_tools=self._knows_tools, arguments_as_text=True)
            prompt = self._read(template, in_text)
        return self._with_beginning(prompt, conversation.begun) if conversation.begun else prompt

    def _look_at(self, template: ChatTemplate) -> None:
        family = family_of(template.source)
        self._knows_tools = family is not None and template.wants("tools")
        self.family = family if family is not None and self._knows_tools else DEFAULT
        self.marks = marks_of(template.source, self._kernels)

    def _read(self, template: ChatTemplate, variables: dict[str, Any]) -> Prompt:
        mark = str(10**29 + secrets.randbelow(9 * 10**29))
        marked = replaced(variables, lambda text: mark.join(self._control_texts.broken(text)))
        faithful = self._read_marked(template.render(marked), mark)
        stand_ins = StandIns(mark)
        rendering = template.render(replaced(variables, stand_ins.stand_in), after_json=stand_ins.in_json)
        passages = stand_ins.pattern.split(rendering)
        audited = self._read_stand_ins(passages, stand_ins)
        tokens = faithful if self._control_of(faithful) == self._control_of(audited) else audited
        bos = self._kernels.facts.bos_token
        if self._kernels.facts.adds_bos and bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return Prompt(tokens=tokens, thinking=self._opens_thought(passages[-1]))

    def _with_beginning(self, prompt: Prompt, begun: str) -> Prompt:
        """The prompt and the answer's beginning, which is no thought: one that the template opens is closed before."""
        tokens = list(prompt.tokens)
        if prompt.thinking and self.marks is not None:
            tokens += self._tokenize(self.marks.closing, parse_special=True, begins=False)
        for piece in self._control_texts.broken(begun):
            tokens += self._tokenize(piece, parse_special=False, begins=False)
        return Prompt(tokens=tokens)

    def _read_marked(self, rendering: str, mark: str) -> list[int]:
        return [
            token
            for index, passage in enumerate(rendering.split(mark))
            for token in self._tokenize(passage, parse_special=True, begins=index == 0)
        ]

    def _read_stand_ins(self, passages: Sequence[str], stand_ins: StandIns) -> list[int]:
        tokens: list[int] = []
        for index, passage in enumerate(passages):
            if index % 2:  # the pattern's group: the number of a client's text
                for piece in self._control_texts.broken(stand_ins.original(passage)):
                    tokens += self._tokenize(piece, parse_special=False, begins=False)
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
        return [token for token in tokens if token in self._control]

    def _opens_thought(self, scaffold: str) -> bool:
        """Whether the template's own words after the last of the client's leave a thought open."""
        marks = self.marks
        return marks is not None and scaffold.rfind(marks.opening) > scaffold.rfind(marks.closing)


def _single_tokens(kernels: Kernels, vocabulary: Vocabulary) -> dict[int, str]:
    """The marks of thinking and of tool calls that are tokens of their own, control tokens aside."""
    texts = {mark for family in FAMILIES for mark in family.marks if mark[0] in "<[" and mark[-1] in ">]"}
    texts |= {mark for pair in PAIRS for mark in pair}
    found: dict[int, str] = {}
    for text in texts:
        tokens = kernels.tokenize(text, add_special=False, parse_special=True)
        if len(tokens) == 1 and tokens[0] not in vocabulary.control and len(text) > 1:
            found[tokens[0]] = text
    return found
