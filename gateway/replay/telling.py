"""How the replicas of a gateway hear of each other in a replay: everything a replica tells, a fixed time later."""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from gateway.fleet.events import HEARTBEAT_S, Alive, FleetEvent
from gateway.fleet.fleet import Fleet
from gateway.replay.simulated import SimulatedClock


class Telling:
    """Carries events between fleets, ``delay_s`` after they were told.

    It owes the fleets what ``gateway.fleet.events`` asks of a carrier; the heartbeat of a silent replica included.
    """

    def __init__(self, clock: SimulatedClock, *, delay_s: float) -> None:
        self._clock = clock
        self._delay_s = delay_s
        self._fleets: Sequence[Fleet] = ()
        self._last_told_s: dict[str, float] = {}
        self._on_the_way: deque[tuple[float, str, FleetEvent]] = deque()

    def connect(self, fleets: Sequence[Fleet]) -> None:
        """These hear each other from now on."""
        self._fleets = fleets
        self._last_told_s = {fleet.replica: self._clock.now_s() for fleet in fleets}

    def teller(self, replica: str) -> Callable[[FleetEvent], None]:
        """What the fleet of ``replica`` tells with."""

        def tell(event: FleetEvent) -> None:
            now_s = self._clock.now_s()
            self._last_told_s[replica] = now_s
            self._on_the_way.append((now_s + self._delay_s, replica, event))

        return tell

    @property
    def next_s(self) -> float:
        """When the next event arrives; never, if none is on its way."""
        return self._on_the_way[0][0] if self._on_the_way else inf

    def deliver(self) -> None:
        """The event whose time has come arrives everywhere but where it comes from."""
        _, replica, event = self._on_the_way.popleft()
        self._hear(replica, event)

    def beat(self) -> None:
        """Whoever has been silent for too long says that it is there."""
        now_s = self._clock.now_s()
        for replica, told_s in self._last_told_s.items():
            if now_s - told_s >= HEARTBEAT_S:
                self._last_told_s[replica] = now_s
                self._hear(replica, Alive(replica))

    def _hear(self, replica: str, event: FleetEvent) -> None:
        for fleet in self._fleets:
            if fleet.replica != replica:
                fleet.hear(event)
