from collections.abc import Callable
from typing import Any

import pytest

from gateway.fleet.events import HEARTBEAT_S, LEASE_S, Dispatched
from gateway.fleet.fleet import Fleet
from gateway.replay.scene import Scene, Stage
from gateway.replay.simulated import SimulatedClock
from gateway.replay.telling import Telling
from gateway.stores.memory import MemoryShared


class _Two:
    """Two gateways in front of the same engine, who hear of each other after half a second."""

    def __init__(self, scene: Scene, ctx: Any) -> None:
        self.clock = SimulatedClock()
        self.telling = Telling(self.clock, delay_s=0.5)
        self.fleets = [
            Fleet(clock=self.clock, shared=MemoryShared(self.clock), replica=name, tell=self.telling.teller(name))
            for name in ("one", "other")
        ]
        self.telling.connect(self.fleets)
        self._scene, self._ctx = scene, ctx

    def in_flight(self) -> list[int]:
        found = [fleet.snapshot(self._scene.route, self._ctx, self._scene.backends)[0] for fleet in self.fleets]
        return [candidate.in_flight for candidate in found]

    def dispatch(self) -> None:
        name = next(iter(self._scene.backends))
        self.fleets[0].tell(  # type: ignore[misc]  # it tells
            Dispatched(
                replica="one",
                flight=1,
                backend=name,
                model="",
                prompt_tokens=10,
                fresh_tokens=10,
                output_tokens=1,
                streams=True,
            )
        )


@pytest.fixture
def two(stage: Callable[..., Stage], make_context: Any) -> _Two:
    """Nothing told yet."""
    return _Two(stage(replicas=1).build(), make_context())


def test_what_one_tells_the_other_hears_after_the_delay(two: _Two) -> None:
    """And not itself: it knows already."""
    two.dispatch()
    assert (0.5, [0, 0]) == (two.telling.next_s, two.in_flight())
    two.clock.set(0.5)
    two.telling.deliver()
    assert (float("inf"), [0, 1]) == (two.telling.next_s, two.in_flight())


@pytest.mark.parametrize("beating", [True, False])
def test_a_silent_gateway_is_not_taken_for_dead_as_long_as_its_heart_beats(two: _Two, beating: bool) -> None:
    """Else what it had under way would no longer count."""
    two.dispatch()
    two.clock.set(0.5)
    two.telling.deliver()
    for second in range(1, int(LEASE_S / HEARTBEAT_S) + 3):
        two.clock.set(second * HEARTBEAT_S)
        if beating:
            two.telling.beat()
    assert [0, int(beating)] == two.in_flight()
