"""Checks a request and reads its prompt, before it takes anything from anybody.

Needs the model's vocabulary only, so it may run in another thread than the one that decodes: tokenising a long prompt
does not hold up the streams.
"""

import math
import secrets
from dataclasses import dataclass

from embedded_engine.errors import ContextLengthExceeded, InvalidRequest
from embedded_engine.messages import (
    MAX_CHOICES,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    ChatMessage,
    CountTokens,
    Generate,
)
from embedded_engine.prompt import PromptReader
from embedded_engine.sampling.parameters import Sampling
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
        stop: Stop strings.
        n: Choices.
    """

    id: int
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...]
    n: int

    @property
    def kv_tokens(self) -> int:
        """Cells it may come to need: the choices share the prompt's."""
        return len(self.prompt) + self.n * self.max_tokens


class Intake:
    """Prepares requests for one model; safe to use from several threads."""

    def __init__(self, reader: PromptReader, vocabulary: Vocabulary, limits: Limits) -> None:
        self._reader = reader
        self._vocabulary = vocabulary
        self._limits = limits

    def prepare(self, request: Generate) -> Prepared:
        """The request with its prompt read.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        _check_ranges(request, self._limits)
        prompt = self._read_prompt(request)
        room = self._room(len(prompt), request.n, "prompt" if request.messages is None else "messages")
        return Prepared(
            id=request.id,
            prompt=tuple(prompt),
            max_tokens=min(request.max_tokens or room, room),
            sampling=Sampling(
                temperature=request.temperature,
                top_k=request.top_k,
                top_p=request.top_p,
                min_p=request.min_p,
                seed=secrets.randbits(63) if request.seed is None else request.seed,
            ),
            stop=request.stop,
            n=request.n,
        )

    def count(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is.

        Raises:
            RequestError: It cannot be read.
        """
        _check_one_prompt(request.messages, request.text)
        if request.messages is not None:
            return len(self._reader.read_messages(request.messages))
        return len(self._reader.read_text(request.text or ""))

    def _read_prompt(self, request: Generate) -> list[int]:
        if request.messages is not None:
            characters = sum(len(turn.content) + len(turn.name or "") for turn in request.messages)
            self._refuse_far_too_long(characters, "messages")
            return self._reader.read_messages(request.messages)
        if request.text is not None:
            self._refuse_far_too_long(len(request.text), "prompt")
            prompt = self._reader.read_text(request.text)
        else:
            prompt = list(request.token_ids or ())
            size = len(self._vocabulary.pieces)
            if any(not 0 <= token < size for token in prompt):
                raise InvalidRequest(f"token ids must be from 0 to {size - 1}", param="prompt")
        if not prompt:
            raise InvalidRequest("the prompt is empty", param="prompt")
        return prompt

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


def _check_one_prompt(*prompts: tuple[ChatMessage, ...] | tuple[int, ...] | str | None) -> None:
    if sum(prompt is not None for prompt in prompts) != 1:
        raise InvalidRequest("give exactly one kind of prompt", param="prompt")


def _check_ranges(request: Generate, limits: Limits) -> None:
    """Every number in its range; a comparison with NaN is false, so each is written to hold for good values only."""
    _check_one_prompt(request.messages, request.text, request.token_ids)
    checks = {
        "temperature": (0 <= request.temperature < math.inf, "must be a number from 0"),
        "top_p": (0 < request.top_p <= 1, "must be over 0 and at most 1"),
        "min_p": (0 <= request.min_p <= 1, "must be from 0 to 1"),
        "top_k": (request.top_k >= 0, "must not be negative"),
        "max_tokens": (request.max_tokens is None or request.max_tokens >= 1, "must be at least 1"),
        "n": (1 <= request.n <= min(MAX_CHOICES, limits.slots), f"must be from 1 to {min(MAX_CHOICES, limits.slots)}"),
        "stop": (
            _stops_are_good(request.stop),
            f"must be at most {MAX_STOP_STRINGS} texts of 1 to {MAX_STOP_BYTES} bytes",
        ),
    }
    for param, (good, rule) in checks.items():
        if not good:
            raise InvalidRequest(f"{param} {rule}", param=param)


def _stops_are_good(stops: tuple[str, ...]) -> bool:
    sizes = [len(stop.encode("utf-8", "replace")) for stop in stops]
    return len(stops) <= MAX_STOP_STRINGS and all(1 <= size <= MAX_STOP_BYTES for size in sizes)
