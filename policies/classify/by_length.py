"""Prompt tokens from its bytes, answer tokens from what the model answered lately."""

import math
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.forecast import Forecast
from gateway.types import ChatRequest, LedgerEntry, Status
from policies.classify._kaplan_meier import quantiles
from policies.classify._prompt_tokens import choices, prompt_tokens, writes

_CUT_SHORT = "length"
_MODELS = 512
_WINDOW = 256
_FEW = 32
_LEVELS = (0.5, 0.9)


class _Answers:
    """The last lengths of one model's answers, and their quantiles.

    Those are reckoned anew with each answer; where some were cut short, which costs a walk over all, with each while
    there are few and with every eighth of a full window: one more answer among many moves them little.
    """

    __slots__ = ("_added", "_cut_short", "_latest", "_sorted", "p50", "p90")

    def __init__(self) -> None:
        self._latest: deque[tuple[int, bool]] = deque()
        self._sorted: list[tuple[int, bool]] = []
        self._added = 0
        self._cut_short = 0
        self.p50 = 0
        self.p90 = 0

    @property
    def count(self) -> int:
        return len(self._sorted)

    def add(self, tokens: int, *, cut_short: bool) -> None:
        if len(self._latest) == _WINDOW:
            oldest = self._latest.popleft()
            self._cut_short -= oldest[1]
            del self._sorted[bisect_left(self._sorted, oldest)]
        answer = (tokens, cut_short)
        self._latest.append(answer)
        self._cut_short += cut_short
        insort(self._sorted, answer)
        self._added += 1
        if not self._cut_short:
            self.p50, self.p90 = _plain_quantiles(self._sorted)
        elif self._added * _FEW >= len(self._sorted):
            self._added = 0
            self.p50, self.p90 = quantiles(self._sorted, _LEVELS)


@dataclass(frozen=True, kw_only=True)
class ByLength:
    """Prompt tokens from its bytes, answer tokens from what the model answered lately.

    ::

        prompt_tokens = prompt_bytes / bytes_per_token + messages x message_tokens + images x image_tokens
        output_tokens = min(quantile of the model's last 256 answers, max_tokens) x choices

    Bytes count better than characters: on English prompts the two are equal (mean error 18 % of the tokens that
    cl100k finds), on other scripts bytes are off by 37 % and characters by 69 %. Prompts that are tokens already are
    counted.

    An answer that ran into ``max_tokens`` would have been longer, so its length is a lower bound. It is neither taken
    for a whole answer nor left out, either of which would pull the forecast down: the quantiles are those of the
    Kaplan-Meier estimate, which knows such observations. Until a model has given ``enough_answers``, the prior stands.

    It learns from answers that ended well and whose tokens the backend counted. At most 512 model names are kept, the
    ones seen last.

    Attributes:
        bytes_per_token: UTF-8 bytes in a token of text. English has 4.4 in large vocabularies; 4 errs towards more.
        message_tokens: what a chat template writes around each message.
        image_tokens: what an image weighs.
        prior_p50_tokens: the median answer before anything is known of a model.
        prior_p90_tokens: the length that nine in ten answers stay within, likewise. The defaults are what 49,000
            answers of a general assistant had.
        enough_answers: how many answers of a model are worth more than the prior.

    Example::

        classify: {use: by_length, bytes_per_token: 3.5}
    """

    bytes_per_token: float = 4.0
    message_tokens: int = 4
    image_tokens: int = 765
    prior_p50_tokens: int = 255
    prior_p90_tokens: int = 550
    enough_answers: int = 16
    _answers: OrderedDict[str, _Answers] = field(init=False, repr=False, compare=False, default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if not 0 < self.bytes_per_token < math.inf:
            raise ValueError(f"`bytes_per_token` must be positive, and is {self.bytes_per_token}")
        for name in ("message_tokens", "image_tokens", "prior_p50_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")
        if self.prior_p90_tokens < self.prior_p50_tokens:
            raise ValueError("`prior_p90_tokens` must not be below `prior_p50_tokens`")
        if not 1 <= self.enough_answers <= _WINDOW:
            raise ValueError(f"`enough_answers` must be from 1 to {_WINDOW}, and is {self.enough_answers}")

    def forecast(self, request: ChatRequest) -> Forecast:
        """The tokens of the whole prompt, and the median and nine-in-ten length of all choices together."""
        p50, p90 = self.prior_p50_tokens, self.prior_p90_tokens
        answers = self._answers.get(request.model)
        if answers is not None and answers.count >= self.enough_answers:
            p50, p90 = answers.p50, answers.p90
        if not writes(request):
            p50 = p90 = 0
        if request.max_tokens is not None:
            p50, p90 = min(p50, request.max_tokens), min(p90, request.max_tokens)
        written = choices(request)
        return Forecast(
            prompt_tokens=prompt_tokens(
                request,
                bytes_per_token=self.bytes_per_token,
                message_tokens=self.message_tokens,
                image_tokens=self.image_tokens,
            ),
            output_tokens_p50=p50 * written,
            output_tokens_p90=p90 * written,
            choices=written,
        )

    def observe(self, entry: LedgerEntry) -> None:
        """Learns the length of an answer that the backend counted itself."""
        request = entry.request
        serving = entry.serving
        if request is None or entry.outcome.status is not Status.OK or serving is None:
            return
        usage = serving.usage
        if usage is None or usage.estimated or request.max_tokens == 0:  # which asks for no answer
            return
        answers = self._answers.setdefault(request.model, _Answers())
        self._answers.move_to_end(request.model)
        answers.add(usage.output_tokens // choices(request), cut_short=entry.outcome.finish_reason == _CUT_SHORT)
        while len(self._answers) > _MODELS:
            self._answers.popitem(last=False)


def _plain_quantiles(answers: Sequence[tuple[int, bool]]) -> tuple[int, int]:
    """What ``quantiles`` says where no answer was cut short: the lengths at their ranks."""
    count = len(answers)
    return answers[(count - 1) // 2][0], answers[-(-9 * count // 10) - 1][0]
