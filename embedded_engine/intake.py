"""Checks a request and reads its prompt, before it takes anything from anybody.

Needs the model's vocabulary only, so it may run in another thread than the one that decodes: tokenising a long prompt
does not hold up the streams.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from embedded_engine.answer_plan import AnswerPlan, AnswerPlanner
from embedded_engine.conversation import Conversation
from embedded_engine.embedding import PreparedEmbedding
from embedded_engine.errors import ContextLengthExceeded, InvalidRequest
from embedded_engine.messages import MAX_TEXTS, ChatMessage, CountTokens, Embed, Generate
from embedded_engine.prompt import Prompt, PromptReader
from embedded_engine.request_ranges import check_one_prompt, check_ranges
from embedded_engine.sampling.constraints import Grammar
from embedded_engine.sampling.grammar_compiler import GrammarCompiler
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.speculative import AS_FAST_AS_CAN_BE, Speculative
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Intake", "Limits", "Prepared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may ask for.

    Attributes:
        context_tokens: Prompt and answer of one choice.
        kv_tokens: The prompt and the answers of all choices.
        slots: Choices.
    """

    context_tokens: int
    kv_tokens: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that can be served: its prompt fits, and every field has a value in its range.

    Attributes:
        id: The caller's number.
        prompt: Token ids, at least one.
        max_tokens: At most so many new tokens for each choice; with the prompt they fit the context.
        sampling: How tokens are drawn.
        n: Choices.
        plan: How its answers are drawn and read.
        logprobs: So many of the likeliest tokens are told beside each; None: none, and not its own either.
        echo: Whether the prompt is told too.
        told_space: Whether its tokens begin with a space that the tokenizer has put there.
        new_grammar: Begins what a choice must look like; None: anything.
        predicted_tokens: How long each answer may be expected to be.
        deadline_s: From when it is taken to when it is too late.
        scope: Whose it is; scopes share nothing.
        prediction: The tokens that the caller expects.
        speculative: How it may be sped up.
    """

    id: int
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    n: int
    plan: AnswerPlan
    logprobs: int | None = None
    echo: bool = False
    told_space: bool = False
    new_grammar: Callable[[], Grammar] | None = None
    scope: str = ""
    predicted_tokens: int | None = None
    deadline_s: float | None = None
    prediction: tuple[int, ...] = ()
    speculative: Speculative = AS_FAST_AS_CAN_BE

    @property
    def kv_tokens(self) -> int:
        """Cells it may come to need: the choices share the prompt's."""
        return len(self.prompt) + self.n * self.max_tokens

    @property
    def scores_prompt(self) -> bool:
        """Whether the logits of every token of the prompt are needed."""
        return self.echo and self.logprobs is not None


_PREDICTED_PER_TOKEN = 4
"""A prediction may be longer than the answer: what is left out of it is skipped."""


class Intake:
    """Prepares requests for one model; safe to use from several threads."""

    def __init__(self, reader: PromptReader, vocabulary: Vocabulary, limits: Limits) -> None:
        self._reader = reader
        self._vocabulary = vocabulary
        self._limits = limits
        self._grammars = GrammarCompiler(vocabulary)
        self._planner = AnswerPlanner(reader, vocabulary, self._grammars)

    def prepare(self, request: Generate) -> Prepared:
        """The request with its prompt read.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        check_ranges(request, slots=self._limits.slots, vocabulary_tokens=len(self._vocabulary.pieces))
        prompt = self._read_prompt(request)
        room = self._room(len(prompt.tokens), request.n, "prompt" if request.messages is None else "messages")
        max_tokens = room if request.max_tokens is None else min(request.max_tokens, room)
        plan = self._planner.plan(request, prompt, max_tokens=max_tokens)
        return Prepared(
            id=request.id,
            prompt=tuple(prompt.tokens),
            max_tokens=max_tokens,
            sampling=_sampling(request),
            n=request.n,
            plan=plan,
            logprobs=request.logprobs,
            echo=request.echo,
            told_space=request.text is not None and self._vocabulary.adds_space,
            new_grammar=self._grammars.compile(plan.grammar) if plan.grammar else None,
            scope=request.scope,
            predicted_tokens=request.predicted_tokens,
            deadline_s=request.deadline_s,
            prediction=self._read_prediction(request, max_tokens),
            speculative=request.speculative,
        )

    def prepare_embedding(self, request: Embed) -> PreparedEmbedding:
        """The request with its texts read.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        given = request.texts if request.texts is not None else request.token_ids
        if given is None or (request.texts is not None and request.token_ids is not None):
            raise InvalidRequest("give either texts or token ids", param="input")
        if not 1 <= len(given) <= MAX_TEXTS:
            raise InvalidRequest(f"input must be 1 to {MAX_TEXTS} texts", param="input")
        texts = tuple(tuple(self._read_raw(text, "input")) for text in given)
        limit, longest = self._limits.context_tokens, max(map(len, texts))
        if longest > limit:
            message = f"This model's maximum context length is {limit} tokens, but a text has {longest} tokens."
            raise ContextLengthExceeded(message, param="input")
        return PreparedEmbedding(id=request.id, texts=texts)

    def count(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is.

        Raises:
            RequestError: It cannot be read.
        """
        check_one_prompt(request.messages, request.text)
        if request.messages is not None:
            return len(self._reader.read_messages(request.messages))
        return len(self._reader.read_text(request.text or ""))

    def _read_prediction(self, request: Generate, max_tokens: int) -> tuple[int, ...]:
        """As many of its tokens as an answer of `max_tokens` could use."""
        if not request.prediction or not request.speculative.enabled:
            return ()
        longest = self._vocabulary.longest_piece_bytes * _PREDICTED_PER_TOKEN * max_tokens
        return tuple(self._reader.read_passage(request.prediction[:longest])[: _PREDICTED_PER_TOKEN * max_tokens])

    def _read_prompt(self, request: Generate) -> Prompt:
        if request.messages is not None:
            self._refuse_far_too_long(sum(map(_characters, request.messages)), "messages")
            begun = request.messages[-1].content if request.continues else ""
            return self._reader.read_conversation(
                Conversation(
                    messages=request.messages[:-1] if request.continues else request.messages,
                    begun=begun,
                    tools=request.tools if request.tool_choice != "none" else (),
                    reasoning=request.reasoning,
                    arguments=request.template_arguments,
                )
            )
        given = request.text if request.text is not None else request.token_ids or ()
        return Prompt(tokens=self._read_raw(given, "prompt"))

    def _read_raw(self, given: str | tuple[int, ...], param: str) -> list[int]:
        if isinstance(given, str):
            self._refuse_far_too_long(len(given), param)
            tokens = self._reader.read_text(given)
        else:
            tokens = list(given)
            size = len(self._vocabulary.pieces)
            if any(not 0 <= token < size for token in tokens):
                raise InvalidRequest(f"token ids must be from 0 to {size - 1}", param=param)
        if not tokens:
            raise InvalidRequest(f"the {param} is empty", param=param)
        return tokens

    def _refuse_far_too_long(self, characters: int, param: str) -> None:
        """Refuse, without reading it, a text that cannot fit however well its characters share tokens."""
        at_least = characters // self._vocabulary.longest_piece_bytes
        if at_least >= self._limits.context_tokens:
            raise self._too_long(f"at least {at_least}", param)

    def _room(self, prompt_tokens: int, n: int, param: str) -> int:
        limits = self._limits
        room = min(limits.context_tokens - prompt_tokens, (limits.kv_tokens - prompt_tokens) // n)
        if room < 1:
            raise self._too_long(str(prompt_tokens), param)
        return room

    def _too_long(self, prompt_tokens: str, param: str) -> ContextLengthExceeded:
        limit = self._limits.context_tokens
        return ContextLengthExceeded(
            f"This model's maximum context length is {limit} tokens, but the prompt has {prompt_tokens} tokens "
            f"and at least 1 must be left for the answer. Shorten the prompt.",
            param=param,
        )


def _sampling(request: Generate) -> Sampling:
    return Sampling(
        seed=secrets.randbits(63) if request.seed is None else request.seed,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        logit_bias=request.logit_bias,
        min_tokens=request.min_tokens,
        ignore_eos=request.ignore_eos,
    )


def _characters(turn: ChatMessage) -> int:
    called = sum(len(call.name) + len(call.arguments) for call in turn.calls)
    return len(turn.content) + len(turn.name or "") + called
