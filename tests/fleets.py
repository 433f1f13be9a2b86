"""A fleet over real backends, for tests of what it learns from attempts."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import HeadraceError
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.fleet.standing import Standing
from gateway.rules.world import World
from gateway.stores.memory import MemoryShared
from gateway.types import Candidate, Context

LONG_PROMPT = "A long system prompt. " * 1000
TWO_BACKENDS = """
    backends:
      a: {use: fake, models: {small: {context_tokens: 4096, capabilities: [tools]}}}
      b: {use: fake, models: [small], concurrency: 3}
    routes: {r: {models: ["*"], targets: [a/small, b/small]}}
"""


class Scene:
    """A fleet over two real backends, and one request."""

    def __init__(self, world: World, ctx: Context, clock: Any) -> None:
        self.world = world
        self.ctx = ctx
        self.clock = clock
        self.fleet = Fleet(clock=clock, shared=MemoryShared(clock))

    def look(self, ctx: Context | None = None) -> dict[str, Candidate]:
        """The candidates as they are now."""
        found = self.fleet.snapshot(self.world.routes[0], ctx or self.ctx, self.world.backends)
        return {candidate.backend: candidate for candidate in found}

    def standing(self, backend: str) -> Standing:
        """What the fleet knows of the backend's one model."""
        return self.fleet.standing(backend, "small", self.world.backends[backend].facts())

    def fly(self, backend: str = "a", ctx: Context | None = None) -> Flight:
        """Sends the request to a backend."""
        ctx = ctx or self.ctx
        return Flight(self.fleet, ctx, self.look(ctx)[backend], self.world.backends[backend].facts())

    def fail(self, error: HeadraceError | None, backend: str = "a") -> None:
        """One attempt that ends so."""
        self.fly(backend).landed(usage=None, decode_s=None, error=error, now_s=self.clock.now_s())


@pytest.fixture(scope="session")
def make_scene(make_world: Callable[..., World], make_context: Any, make_request: Any) -> Callable[..., Scene]:
    """Makes a fleet over the backends of a policy file, and a request: a long one, unless given."""

    def make(clock: Any, policy: str = TWO_BACKENDS, ctx: Context | None = None) -> Scene:
        ctx = ctx or make_context(make_request(LONG_PROMPT), prompt_tokens=5000, p50=100)
        return Scene(make_world(policy), ctx, clock)

    return make


@pytest.fixture
def scene(make_scene: Callable[..., Scene], clock: Any) -> Scene:
    """Two backends that have seen nothing yet."""
    return make_scene(clock)
