"""What is under way at one model of one backend: prompts that wait to be read, answers that are being written."""

from collections import OrderedDict
from math import inf

from msgspec import Struct

from gateway.fleet.speeds import Speeds, Stretch

_TELLING_PROMPT_TOKENS = 256
"""Below this the round trip, not the reading, decides when the first token comes."""

_TELLING_OUTPUT_TOKENS = 8

_MOST_READING_SHARE = 0.8
"""Of an answer's time. An engine that reads all the time writes all the same."""


class Leg(Struct, kw_only=True, eq=False, gc=False):
    """One attempt as the workload sees it, from its dispatch to its end. Ours, or another replica's.

    ``streams`` tells whether its first token will be seen; where not, the prompt is taken as read when its time has
    come. ``wait_s`` and ``read_s`` are what was expected at dispatch. ``seen`` tells whether the first token was, and
    ``over`` whether it has landed.
    """

    prompt_tokens: int
    fresh_tokens: int
    output_tokens: int
    streams: bool
    dispatched_s: float = 0.0
    wait_s: float = 0.0
    read_s: float = 0.0
    began_s: float | None = None
    seen: bool = False
    over: bool = False
    sequence_seconds: float = 0.0
    kv_seconds: float = 0.0
    reading_seconds: float = 0.0


class Workload:
    """Counters and queues of what is under way, and the speeds that are learned from it.

    ``waiting`` is how many prompts wait to be read.

    The prompts are read one after the other, in the order of dispatch; how an engine cuts them into pieces changes
    little about when the last of them is read. Times are on the monotonic clock, and one that goes back counts as one
    that stands still.

    Args:
        pool: the speeds of all backends for the same model.
    """

    __slots__ = (
        "_changed_s",
        "_head",
        "_kv_seconds",
        "_queued_s",
        "_read_at_s",
        "_reading_seconds",
        "_sequence_seconds",
        "_waiting",
        "decoding",
        "in_flight",
        "kv_tokens",
        "prefill",
        "queued_prefill_tokens",
        "running_output_tokens",
        "stretch",
        "waiting",
        "writing",
    )

    def __init__(self, pool: Speeds | None = None) -> None:
        self.in_flight = 0
        self.waiting = 0
        self.queued_prefill_tokens = 0
        self.running_output_tokens = 0
        self.kv_tokens = 0
        self.writing = 0
        speeds = Speeds(pool)
        self.prefill = speeds.prefill
        self.decoding = speeds.decoding
        self.stretch = Stretch()
        self._waiting: OrderedDict[Leg, None] = OrderedDict()
        self._head: Leg | None = None  # the prompt that is being read
        self._queued_s = 0.0
        self._read_at_s = -inf  # when a prompt was last known to be read
        self._changed_s = 0.0
        self._sequence_seconds = 0.0
        self._kv_seconds = 0.0
        self._reading_seconds = 0.0

    @property
    def oldest(self) -> Leg | None:
        """Whose prompt is taken to be read now: of those that wait it was sent off first."""
        return self._head

    def queued_s(self, now_s: float) -> float:
        """How long the prompts that wait keep it from reading another one."""
        while (head := self._head) is not None:
            dispatched_s, read_at_s = head.dispatched_s, self._read_at_s
            since_s = dispatched_s if dispatched_s > read_at_s else read_at_s  # noqa: FURB136  # max() takes four times as long, and there were six a request
            elapsed_s = now_s - since_s
            if elapsed_s < head.read_s or head.streams:
                gone_s = elapsed_s if elapsed_s < head.read_s else head.read_s  # noqa: FURB136  # likewise
                left_s = self._queued_s - gone_s if gone_s > 0 else self._queued_s
                return left_s if left_s > 0 else 0.0
            self._take_out(head)
            self._begins(head, since_s + head.read_s)
        return 0.0

    def leave(self) -> None:
        """The backend is gone: its speeds do not follow the others' any more."""
        self.prefill.leave()
        self.decoding.leave()

    def slot_s(self, in_flight: int, places: int, seconds_per_token: float) -> float:
        """How long until one of ``places`` is free, where ``in_flight`` hold or wait for one.

        ``in_flight - places + 1`` must end first; each writes its share of what is expected, ``places`` at once.
        """
        share_tokens = self.running_output_tokens / max(self.in_flight, 1)
        return share_tokens * seconds_per_token * (in_flight - places + 1) / max(places, 1)

    def dispatched(self, leg: Leg, now_s: float, *, read_s: float) -> None:
        """The attempt is on its way; its prompt will take ``read_s`` to read."""
        leg.wait_s = self.queued_s(now_s)
        leg.dispatched_s, leg.read_s = now_s, read_s
        self.in_flight += 1
        self.queued_prefill_tokens += leg.fresh_tokens
        self.running_output_tokens += leg.output_tokens
        self._pass(now_s)
        self.kv_tokens += leg.prompt_tokens
        self._waiting[leg] = None
        self.waiting += 1
        self._head = self._head or leg
        self._queued_s += read_s

    def first_token(self, leg: Leg, now_s: float) -> None:
        """The prompt is read. What it took, from when it could begin, is learned from."""
        leg.seen = True
        if leg not in self._waiting:
            return
        self._pass(now_s)
        self._take_out(leg)
        since_s = max(leg.dispatched_s, self._read_at_s)
        if leg.fresh_tokens >= _TELLING_PROMPT_TOKENS and now_s > leg.dispatched_s:
            warm_tokens = leg.prompt_tokens - leg.fresh_tokens
            step_s = self.decoding.seconds_per_token(self.writing, self.kv_tokens) if self.writing else 0.0
            self.prefill.learn(leg.fresh_tokens, warm_tokens, max(now_s - since_s - step_s, 0.0))
        self.stretch.learn(leg.wait_s + leg.read_s, now_s - leg.dispatched_s)
        self._begins(leg, now_s)

    def landed(self, leg: Leg, now_s: float) -> None:
        """The attempt is over, read or not."""
        leg.over = True
        self.in_flight -= 1
        self.running_output_tokens -= leg.output_tokens
        self._pass(now_s)
        if leg in self._waiting:
            self._take_out(leg)
        elif leg.began_s is not None:
            self.writing -= 1
        self.kv_tokens -= leg.prompt_tokens

    def wrote(self, leg: Leg, output_tokens: int, seconds: float) -> None:
        """The attempt, which has landed, wrote ``output_tokens`` between its first and its last in ``seconds``.

        While prompts are read beside it, an answer gets on slowly, whatever its own steps take: that time is left out.
        """
        if output_tokens < _TELLING_OUTPUT_TOKENS or seconds <= 0:
            return
        sequences, kv_tokens, reading_share = 1.0, float(leg.prompt_tokens), 0.0
        beside_s = self._changed_s - leg.began_s if leg.began_s is not None else 0.0
        if beside_s > 0:
            sequences = max((self._sequence_seconds - leg.sequence_seconds) / beside_s, 1.0)
            kv_tokens = (self._kv_seconds - leg.kv_seconds) / beside_s
            reading_share = min((self._reading_seconds - leg.reading_seconds) / beside_s, _MOST_READING_SHARE)
        self.decoding.learn(sequences, kv_tokens, seconds * (1 - reading_share) / (output_tokens - 1))

    def _take_out(self, leg: Leg) -> None:
        waiting = self._waiting
        del waiting[leg]
        self.waiting -= 1
        self._head = next(iter(waiting)) if waiting else None
        self.queued_prefill_tokens -= leg.fresh_tokens
        left_s = self._queued_s - leg.read_s
        self._queued_s = left_s if waiting and left_s > 0 else 0.0  # sums of floats drift; an empty queue is empty

    def _begins(self, leg: Leg, now_s: float) -> None:
        self._read_at_s = now_s if now_s > self._read_at_s else self._read_at_s  # noqa: FURB136  # likewise
        self._pass(now_s)
        self.writing += 1
        leg.began_s = self._changed_s
        leg.sequence_seconds, leg.kv_seconds = self._sequence_seconds, self._kv_seconds
        leg.reading_seconds = self._reading_seconds

    def _pass(self, now_s: float) -> None:
        """Lets the time go by up to ``now_s``: how many sequences and tokens there were, times the seconds."""
        elapsed_s = now_s - self._changed_s
        if elapsed_s > 0:
            self._sequence_seconds += elapsed_s * self.writing
            self._kv_seconds += elapsed_s * self.kv_tokens
            self._reading_seconds += elapsed_s if self._waiting else 0.0
            self._changed_s = now_s
