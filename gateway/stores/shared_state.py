"""What this process shares with the gateway's other replicas, opened as the operator's settings say.

Without ``HEADRACE_REDIS_URL`` it stands alone: the same fleet and the same port in this process' memory, and the
accounts of limits in a file that all workers of the machine open.
"""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.fleet.fleet import Fleet
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.limits.task_admission import TaskAdmission
from gateway.limits.task_budgets import TaskBudgets
from gateway.ports import Clock, Shared
from gateway.prices.price_book import PRICES_FILE, PriceBook
from gateway.rules.world import World
from gateway.settings import Settings
from gateway.steering.steering import Steering
from gateway.stores.memory import MemoryShared
from gateway.stores.redis_address import read_redis_address
from gateway.stores.sqlite_lender import SqliteLender

if TYPE_CHECKING:
    from gateway.stores.replicas import Replicas

LIMITS_FILE = "limits.sqlite3"
"""Where the workers of one machine keep the accounts of limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """The fleet, small facts, limits, what is learned of success, and the line to the other replicas.

    ``replicas`` is ``None`` where there are none.
    """

    fleet: Fleet
    facts: Shared
    gate: Gate
    steering: Steering
    tasks: TaskAdmission
    replicas: "Replicas | None" = None

    def serves(self, world: World) -> None:
        """These are the backends and the limits from now on.

        Replicas hear of all limits in turn, so that each knows its part where the others cannot be reached.
        """
        self.fleet.serves(world.backends)
        self.gate.borrower.watch(world.tenancy.limits() if self.replicas is not None else ())

    def start(self) -> None:
        """Looks for the others; returns at once."""
        self.gate.borrower.start()
        self.steering.start()
        if self.replicas is not None:
            self.replicas.start(self.fleet)

    async def close(self) -> None:
        """Gives back what it has of the limits, and tells the others that it leaves; idempotent."""
        await self.steering.close()
        await self.tasks.close()
        await self.gate.borrower.close()
        if self.replicas is not None:
            await self.replicas.close()

    def trouble(self) -> dict[str, str]:
        """What people should know of it, for readiness: it serves on, with what it knows itself."""
        if self.replicas is None:
            words = self._lender_trouble()
            return {"limits": words} if words else {}
        lost_for_s = self.replicas.lost_for_s
        return {"shared state": "up" if lost_for_s is None else f"lost for {lost_for_s:.0f} s, each replica is alone"}

    def _lender_trouble(self) -> str:
        if self.gate.borrower.lost:
            return "their accounts cannot be reached, each process goes on with what it has"
        return self.gate.borrower.trouble

    def lost(self) -> bool | None:
        """Whether the others cannot be reached; ``None`` where there are none."""
        return None if self.replicas is None else self.replicas.lost_for_s is not None

    def dropped(self) -> int:
        """What the others were not told, in all."""
        return 0 if self.replicas is None else self.replicas.dropped


def open_shared_state(settings: Settings, clock: Clock) -> SharedState:
    """A fleet that hears the others, where there are others. Nothing is connected yet.

    Raises:
        ConfigurationError: the address is none.
    """
    name = secrets.token_hex(6)
    prices = PriceBook(settings.state_dir / PRICES_FILE)
    if settings.redis_url is None:
        alone = MemoryShared(clock)
        lender = SqliteLender(settings.state_dir / LIMITS_FILE, clock=clock)
        gate = Gate(Borrower(lender, replica=name, clock=clock), clock=clock)
        steering = Steering(clock=clock, seat=name, gate=gate)
        fleet = Fleet(clock=clock, shared=alone, prices=prices)
        tasks = TaskAdmission(TaskBudgets(lender, replica=name, clock=clock), fleet)
        return SharedState(fleet=fleet, facts=alone, gate=gate, steering=steering, tasks=tasks)
    from gateway.stores.redis import RedisStore, TlsFiles  # noqa: PLC0415  # 12 MiB that one who stands alone can spare
    from gateway.stores.redis_lender import RedisLender  # noqa: PLC0415  # likewise
    from gateway.stores.replicas import Replicas  # noqa: PLC0415  # likewise

    store = RedisStore(
        read_redis_address(settings.redis_url.get_secret_value()),
        prefix=settings.redis_prefix,
        timeout_s=settings.redis_timeout_s,
        tls=TlsFiles(
            ca=settings.redis_ca_file, certificate=settings.redis_client_certificate, key=settings.redis_client_key
        ),
    )
    replicas = Replicas(name, store, clock=clock)
    fleet = Fleet(clock=clock, shared=replicas, replica=name, tell=replicas.tell, prices=prices)
    common = RedisLender(store)
    gate = Gate(Borrower(common, replica=name, clock=clock), clock=clock)
    tasks = TaskAdmission(TaskBudgets(common, replica=name, clock=clock), fleet)
    steering = Steering(clock=clock, seat=name, gate=gate)
    return SharedState(fleet=fleet, facts=replicas, gate=gate, steering=steering, tasks=tasks, replicas=replicas)
