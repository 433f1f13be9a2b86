"""Answer lengths learned from the prompt's words, the conversation so far and what the model answered lately."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2s

from gateway.forecast import Forecast
from gateway.ports import Shared
from gateway.types import ChatRequest, LedgerEntry
from policies.classify._answer_seen import answer_seen
from policies.classify._length_prior import read_prior, to_tokens
from policies.classify._length_records import read_record, records
from policies.classify._lengths import Lengths
from policies.classify._model_lengths import ModelLengths, Shift
from policies.classify._prompt_tokens import choices, prompt_tokens, writes
from policies.classify._residuals import Spread

_SLOTS_PER_MB = 1024 * 1024 // 8
_MOST_MEMORY_MB = 4096
_SHARE_EVERY = 16
_SHARED_FOR_S = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class LearnedLength:
    """Answer lengths learned from the prompt's words, the conversation so far and what the model answered lately.

    ::

        level         = formula(request) + sum of weights(features of the request)
        output_tokens = min(exp(level + quantile of the last 1,024 residuals) - 100, max_tokens) x choices

    The formula ships with the package: a dozen figures on how an answer's length goes with the answers before it in
    the conversation, the prompt's length and a few phrases. All else is learned while it serves, from answers that
    ended well and whose tokens the backend counted. Features are the prompt's words and pairs of words (its first 200
    and last 100 characters), the lengths of earlier answers, the instructions, settings and tools, as hashes; their
    weights are fitted online (AdaGrad, absolute error). Quantiles are split-conformal: of the last 1,024 residuals of
    this model's answers to this tenant that were expected to be about as long, or of those since the model behind the
    name changed. Answers cut short by ``max_tokens`` count as lower bounds (Kaplan-Meier).

    What one model's answers to one tenant teach stays with that tenant and that model. Between tenants, and between
    replicas of the gateway, goes only how much longer or shorter a model answers than the formula says: three numbers.
    Token counts that cannot be are not believed, and of an odd one no more than a factor of 1.6 teaches anything. Of
    one model's answers to one tenant 25 a second are learned from; more of them would only cost time.

    It is kept in the state directory over restarts. ``docs/forecast.md`` has what it reaches and what it costs.

    Attributes:
        bytes_per_token: UTF-8 bytes in a token of text, until a model's own are known from what its backends count.
        message_tokens: what a chat template writes around each message.
        image_tokens: what an image weighs.
        memory_mb: what the learned weights of all tenants may take; who was seen longest ago is forgotten first.

    Example::

        classify: {use: learned_length, memory_mb: 24}
    """

    bytes_per_token: float = 4.0
    message_tokens: int = 4
    image_tokens: int = 765
    memory_mb: int = 48
    _lengths: Lengths = field(init=False, repr=False, compare=False)
    _meeting: list[Shared] = field(init=False, repr=False, compare=False, default_factory=list)

    def __post_init__(self) -> None:
        if not 0 < self.bytes_per_token < math.inf:
            raise ValueError(f"`bytes_per_token` must be positive, and is {self.bytes_per_token}")
        for name in ("message_tokens", "image_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")
        if not 1 <= self.memory_mb <= _MOST_MEMORY_MB:
            raise ValueError(f"`memory_mb` must be from 1 to {_MOST_MEMORY_MB}, and is {self.memory_mb}")
        lengths = Lengths(read_prior(), most_slots=self.memory_mb * _SLOTS_PER_MB)
        object.__setattr__(self, "_lengths", lengths)

    def forecast(self, request: ChatRequest) -> Forecast:
        """The tokens of the whole prompt, and the median and nine-in-ten length of all choices together."""
        known = self._lengths.known(request)
        if not writes(request):
            return Forecast(prompt_tokens=self._prompt_tokens(request, known), output_tokens_p50=0, output_tokens_p90=0)
        expected = self._lengths.expect(request, known)
        spread = known.spread(expected.level) if known is not None else self._start(request)
        p50, p90 = to_tokens(expected.level + spread.p50), to_tokens(expected.level + spread.p90)
        if request.max_tokens is not None:
            p50, p90 = min(p50, request.max_tokens), min(p90, request.max_tokens)
        written = choices(request)
        return Forecast(
            prompt_tokens=self._prompt_tokens(request, known),
            output_tokens_p50=p50 * written,
            output_tokens_p90=p90 * written,
            choices=written,
        )

    def observe(self, entry: LedgerEntry) -> None:
        """Learns from an answer that ended well and whose tokens the backend counted itself."""
        request = entry.request
        if request is None:
            return
        known = self._lengths.known(request)
        in_time = known is None or known.pace.takes(entry.ended_s)
        answer = answer_seen(entry) if in_time else None
        if answer is None:
            return
        if known is None:
            self._lengths.put(request.arrival.tenant, request.model, ModelLengths(self._start(request)))
        model = self._lengths.learn(request, answer)
        model.learn_bytes_per_token(request.prompt_bytes, answer.prompt_tokens, self.bytes_per_token)
        if model.residuals.seen % _SHARE_EVERY == 1:
            self._tell(request, model)

    def share(self, shared: Shared) -> None:
        """Where replicas leave how much longer or shorter than the formula each model answers."""
        self._meeting[:] = [shared]

    def learned(self) -> Iterator[tuple[str, bytes]]:
        """One record for each model of a tenant, and one for what is known of models whoever asks."""
        return records(self._lengths)

    def resume(self, record: bytes) -> None:
        """Takes back one record.

        Raises:
            ValueError: it is none, or one of another release.
        """
        read_record(self._lengths, record)

    def _prompt_tokens(self, request: ChatRequest, known: ModelLengths | None) -> int:
        return prompt_tokens(
            request,
            bytes_per_token=(known.bytes_per_token if known is not None else None) or self.bytes_per_token,
            message_tokens=self.message_tokens,
            image_tokens=self.image_tokens,
        )

    def _start(self, request: ChatRequest) -> Spread:
        """What is known of a model that has not answered this tenant here: by another replica, or here by others."""
        for shared in self._meeting:
            told = shared.get(_key(request.arrival.tenant, request.model)) or shared.get(_key("", request.model))
            if told is not None and (shift := Shift.from_text(told[0])) is not None:
                return shift.spread()
        return self._lengths.start(request)

    def _tell(self, request: ChatRequest, model: ModelLengths) -> None:
        shifts = {_key(request.arrival.tenant, request.model): model.shift}
        if (pool := self._lengths.pools.get(request.model)) is not None:  # none while all answers were cut short
            shifts[_key("", request.model)] = pool
        for shared in self._meeting:
            for key, shift in shifts.items():
                told = shared.get(key)
                other = Shift.from_text(told[0]) if told is not None else None
                if other is None or other.count <= shift.count:
                    shared.put(key, shift.to_text(), _SHARED_FOR_S)


def _key(tenant: str, model: str) -> str:
    """Of a fixed length and without a name in it, since clients may choose the model's."""
    name = f"{tenant}\0{model}".encode(errors="replace")
    return f"lengths/{blake2s(name, digest_size=12).hexdigest()}"
