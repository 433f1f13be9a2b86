"""The time of one attempt: how long to wait, for whom, and what it says of the backend."""

from gateway.attempt.time_limit import TimeLimit, TimeLimits
from gateway.errors import ClientGone, UpstreamTimeout, UpstreamUnfinished
from gateway.fleet.flight import Flight
from gateway.rules.route import Patience
from gateway.types import ChatRequest


class AttemptPace(TimeLimit):
    """Implements ``gateway.attempt.sink.Pace``: whom the answer waits for decides by when the attempt has to end.

    It knows neither the attempt nor its sink. What knows each other in a circle is freed by the garbage collector
    alone, which costs more than all the rest of an attempt.

    Args:
        limits: of the event loop.
        flight: is told when the prompt has been read.
        patience: of the route.
        deadline_s: the request's, on the event loop's clock.
        request: what the client asked for. Only a stream of text has a first token to wait for.
        tries_left: how many attempts there may be from now on, this one included. A whole answer shows nothing until
            it is there, so it gets its share of the time that is left, and the next candidate has some too.

    Attributes:
        client_is_slow: whether it waits for the client.
        left_s: how much time there was until the request's deadline when the attempt began.
    """

    __slots__ = ("_deadline_s", "_flight", "_now_s", "_patience", "_whole_s", "client_is_slow", "left_s")

    def __init__(
        self,
        limits: TimeLimits,
        flight: Flight,
        patience: Patience,
        *,
        deadline_s: float,
        request: ChatRequest,
        tries_left: int,
    ) -> None:
        now_s = limits.now_s()
        left_s = deadline_s - now_s
        stream = request.stream and request.units is None
        wait_s = patience.first_token_s if stream else left_s / tries_left
        super().__init__(limits, now_s + wait_s if wait_s < left_s else deadline_s)
        self.client_is_slow = False
        self.left_s = max(left_s, 0.0)
        self._flight = flight
        self._patience = patience
        self._deadline_s = deadline_s
        self._now_s = limits.now_s
        self._whole_s = None if stream else wait_s

    def waits_for_client(self, first_token_s: float | None) -> None:
        """See ``Pace``: a backend's place is not held for one who does not read."""
        if first_token_s is not None:
            self._flight.first_token(first_token_s)
        self.client_is_slow = True
        self.due_s = min(self._deadline_s, self._now_s() + self._patience.client_s)

    def waits_for_upstream(self) -> None:
        """See ``Pace``: the next piece must come before the idle limit."""
        self.client_is_slow = False
        self.due_s = min(self._deadline_s, self._now_s() + self._patience.idle_s)

    def left_by_client(self) -> ClientGone:
        """What the client did not do in time; the limit has passed."""
        if self._now_s() >= self._deadline_s:
            return ClientGone(f"the client did not take its answer within {self._patience.total_s:g} s")
        return ClientGone(f"the client left its answer unread for {self._patience.client_s:g} s")

    def ran_out(self, backend: str, first_token_s: float | None) -> UpstreamTimeout:
        """What ``backend`` did not do in time; the limit has passed."""
        if self._now_s() >= self._deadline_s:
            late = UpstreamTimeout if first_token_s is None else UpstreamUnfinished
            return late(f"{backend} did not finish within {self._patience.total_s:g} s")
        if self._whole_s is not None and first_token_s is None:
            return UpstreamTimeout(f"{backend} did not answer within its share of the time, {self._whole_s:.3g} s")
        if first_token_s is None:
            return UpstreamTimeout(f"{backend} sent no token within {self._patience.first_token_s:g} s")
        return UpstreamTimeout(f"{backend} fell silent for {self._patience.idle_s:g} s")
