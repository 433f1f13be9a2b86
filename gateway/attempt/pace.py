"""The time of one attempt: how long to wait, for whom, and what it says of the backend."""

from gateway.attempt.time_limit import TimeLimit, TimeLimits
from gateway.errors import ClientGone, UpstreamTimeout, UpstreamUnfinished
from gateway.fleet.flight import Flight
from gateway.rules.route import Patience
from gateway.types import ChatRequest


class AttemptPace(TimeLimit, kw_only=True, eq=False):
    """Implements ``gateway.attempt.sink.Pace``: whom the answer waits for decides by when the attempt has to end.

    It knows neither the attempt nor its sink. What knows each other in a circle is freed by the garbage collector
    alone, which costs more than all the rest of an attempt.

    Attributes:
        flight: is told when the prompt has been read.
        patience: of the route.
        deadline_s: the request's, on the event loop's clock.
        left_s: how much time there was until then when the attempt began.
        whole_s: how long it may take to a whole answer; ``None`` for a stream.
        client_is_slow: whether it waits for the client.
    """

    flight: Flight
    patience: Patience
    deadline_s: float
    left_s: float
    whole_s: float | None
    client_is_slow: bool = False

    def waits_for_client(self, first_token_s: float | None) -> None:
        """See ``Pace``: a backend's place is not held for one who does not read."""
        if first_token_s is not None:
            self.flight.first_token(first_token_s)
        self.client_is_slow = True
        self.due_s = min(self.deadline_s, self.limits.now_s() + self.patience.client_s)

    def waits_for_upstream(self) -> None:
        """See ``Pace``: the next piece must come before the idle limit."""
        self.client_is_slow = False
        due_s = self.limits.now_s() + self.patience.idle_s
        deadline_s = self.deadline_s
        self.due_s = due_s if due_s < deadline_s else deadline_s  # noqa: FURB136  # min() takes four times as long

    def left_by_client(self) -> ClientGone:
        """What the client did not do in time; the limit has passed."""
        if self.limits.now_s() >= self.deadline_s:
            return ClientGone(f"the client did not take its answer within {self.patience.total_s:g} s")
        return ClientGone(f"the client left its answer unread for {self.patience.client_s:g} s")

    def ran_out(self, backend: str, first_token_s: float | None) -> UpstreamTimeout:
        """What ``backend`` did not do in time; the limit has passed."""
        if self.limits.now_s() >= self.deadline_s:
            late = UpstreamTimeout if first_token_s is None else UpstreamUnfinished
            return late(f"{backend} did not finish within {self.patience.total_s:g} s")
        if self.whole_s is not None and first_token_s is None:
            return UpstreamTimeout(f"{backend} did not answer within its share of the time, {self.whole_s:.3g} s")
        if first_token_s is None:
            return UpstreamTimeout(f"{backend} sent no token within {self.patience.first_token_s:g} s")
        return UpstreamTimeout(f"{backend} fell silent for {self.patience.idle_s:g} s")


def attempt_pace(
    limits: TimeLimits,
    flight: Flight,
    patience: Patience,
    *,
    deadline_s: float,
    request: ChatRequest,
    tries_left: int,
) -> AttemptPace:
    """The pace of an attempt that begins now.

    Only a stream of text has a first token to wait for. A whole answer shows nothing until it is there, so of the
    ``tries_left`` that there may be, this one included, each gets its share of the time.
    """
    now_s = limits.now_s()
    left_s = deadline_s - now_s
    stream = request.stream and request.units is None
    wait_s = patience.first_token_s if stream else left_s / tries_left
    return AttemptPace(
        limits=limits,
        due_s=now_s + wait_s if wait_s < left_s else deadline_s,
        flight=flight,
        patience=patience,
        deadline_s=deadline_s,
        left_s=max(left_s, 0.0),
        whole_s=None if stream else wait_s,
    )
