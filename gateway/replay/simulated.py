"""What stands in for the outside world in a replay: a clock that is set, and backends that are only facts."""

from gateway.facts import BackendFacts
from gateway.ports import Sink, Surroundings
from gateway.types import Call, Finish


class SimulatedClock:
    """The ``Clock`` port in virtual time."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def set(self, now_s: float) -> None:
        """It is ``now_s`` now; never earlier than before."""
        self._now_s = max(now_s, self._now_s)

    def now_s(self) -> float:
        """Seconds since the trace began."""
        return self._now_s

    def unix_s(self) -> float:
        """The same: the trace begins at the epoch."""
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        """Nobody sleeps in a replay."""
        raise RuntimeError(f"a replay does not wait {seconds} s")


class SimulatedBackend:
    """The ``Backend`` port as far as deciding needs it: its facts. The work is done by an ``Engine``."""

    def __init__(self, facts: BackendFacts) -> None:
        self._facts = facts

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``."""
        return self._facts

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``."""

    async def send(self, call: Call, sink: Sink) -> Finish:
        """A replay asks the engine, not the backend."""
        raise RuntimeError(f"a simulated backend answers nobody, {call.model} and {type(sink).__name__} included")

    async def close(self) -> None:
        """See ``Backend.close``."""
