"""From a policy file to a world that serves: the first one, and each one after it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from pathlib import Path

from gateway.ports import Learner, Surroundings
from gateway.process.succession import start_all, start_one, those_not_in
from gateway.rules.parameters import forget_models
from gateway.rules.policy_file import PolicyFile, read_policy
from gateway.rules.world import World, build_world
from gateway.settings import Settings

DEFAULT_POLICY = Path(__file__).with_name("rules") / "default_policy.yaml"

Begin = Callable[[Iterable[Learner]], Awaitable[None]]


class Worlds:
    """Makes worlds of the operator's policy file, and starts what is new in them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.policy or DEFAULT_POLICY
        self._secret_names: tuple[str, ...] = ()

    def secrets(self) -> tuple[str, ...]:
        """The values of the secrets that the policy file names, and of those that its backends know of."""
        named = (self._settings.secret(name) for name in dict.fromkeys(self._secret_names))
        return tuple(value for value in named if value is not None)

    def first(self) -> World:
        """The first one. Nothing is started.

        Raises:
            ConfigurationError: the file is wrong.
        """
        policy, world = self._read(None)
        self._learn_secrets(policy, world)
        return world

    async def start(self, world: World, surroundings: Surroundings) -> None:
        """Starts the backends of the first one.

        Raises:
            ConfigurationError: one cannot be started.
        """
        for name, backend in world.backends.items():
            await start_one(name, backend, surroundings)

    async def next(self, old: World, surroundings: Surroundings, begin: Begin) -> World:
        """The world of the file as it is now, its new backends started and its learners told to ``begin``.

        Raises:
            ConfigurationError: the file is wrong, or a backend cannot be started; then none of them is.
        """
        # A large file takes a tenth of a second, in which the loop has streams to serve.
        policy, new = await asyncio.to_thread(self._read, old)
        self._settings.check_bind(locked=bool(new.tenancy.keys))
        await start_all(those_not_in(new.backends, old.backends), surroundings)
        await begin(new.learners())
        self._learn_secrets(policy, new)
        return new

    def _read(self, old: World | None) -> tuple[PolicyFile, World]:
        try:
            policy = read_policy(self._path)
            world = build_world(policy, file=str(self._path), old=old)
        finally:
            forget_models()
        if any(world.guards()):
            # Here, and not when the first request comes: it is 26 modules, of which most gateways need none.
            import_module("gateway.attempt.guarded")
        return policy, world

    def _learn_secrets(self, policy: PolicyFile, world: World) -> None:
        self._secret_names = (*policy.secret_names(), *world.secret_names(self._settings.model_dir))
