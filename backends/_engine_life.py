"""An engine that is kept alive: found, started, watched, and started again."""

import asyncio
import dataclasses
import hashlib
import logging
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from backends._engine_price import BusyMeter
from backends._supervisor import keep_alive
from embedded_engine.client import EngineDied, EngineProcess, EngineStartFailed
from embedded_engine.errors import ModelNotFound
from embedded_engine.known_models import KNOWN_MODELS
from embedded_engine.messages import Ready
from embedded_engine.models import ModelFile, find_model, hub_id
from embedded_engine.settings import EngineSettings
from embedded_engine.shared_client import SharedEngine
from gateway.ports import Surroundings

_STARTING = "the engine is starting"
_RESTARTING = "the engine is restarting"
_PROCESS_START_S = 1.0
_LOAD_BYTES_PER_S = 1e9
_SHORTEST_WAIT_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long an engine may take for what, in seconds: parameters of ``Embedded`` by the same names."""

    start_timeout_s: float
    stalled_after_s: float
    healthy_s: float
    restart_min_s: float
    restart_max_s: float


class EngineLife:
    """One engine after another, of which at most one is ready.

    Attributes:
        name: The backend's name in the policy file.
        world: None before the start.
        engine: The one that is ready, or None.
        ready: What the last one that was ready said of itself; None before the first.
    """

    def __init__(self) -> None:
        self.name = ""
        self.world: Surroundings | None = None
        self.engine: EngineProcess | SharedEngine | None = None
        self.busy: BusyMeter | None = None
        self.ready: Ready | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._reason = "the engine is not started"
        self._due_s: float | None = None
        self._start_s: float | None = None
        self._longest_wait_s = 0.0

    @property
    def down(self) -> str | None:
        """Why no request can be sent, in words that anybody may read: they name no path. None if one can."""
        if self.engine is None:
            return self._reason
        return None if self.engine.alive else _RESTARTING

    @property
    def in_flight(self) -> int | None:
        """What the engine has under way, whoever sent it; None where it has not said."""
        facts = self.engine.facts if self.engine is not None else None
        return facts.queued + facts.running if facts is not None else None

    @property
    def back_in_s(self) -> float | None:
        """When the engine is expected to be ready: so long as the last start took; as late again as it is late."""
        if self.world is None or self._due_s is None:
            return None
        left_s = self._due_s - self.world.clock.now_s()
        return max(_SHORTEST_WAIT_S, left_s if left_s > 0 else min(-left_s, self._longest_wait_s))

    def start(self, name: str, world: Surroundings, model: str, settings: EngineSettings, terms: Terms) -> None:
        """Begins to keep an engine alive, until ``close``. The settings' ``model_path`` is filled in at each start."""
        self.name, self.world, self._longest_wait_s = name, world, terms.restart_max_s
        self.busy = BusyMeter(world.clock.now_s, lambda: self.in_flight)
        self._expect(_STARTING, _PROCESS_START_S)
        self._supervisor = asyncio.create_task(
            keep_alive(
                lambda: self._live(world, model, settings, terms),
                clock=world.clock,
                healthy_s=terms.healthy_s,
                shortest_s=terms.restart_min_s,
                longest_s=terms.restart_max_s,
            ),
            name=f"engine-{name}",
        )

    async def close(self) -> None:
        """Ends the engine; idempotent."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await supervisor
        self._reason, self._due_s = "the engine is closed", None

    async def _live(self, world: Surroundings, model: str, settings: EngineSettings, terms: Terms) -> None:
        served, began_s = settings.model_name, world.clock.now_s()
        try:
            file = find_model(model, world.model_dir)
            draft_path = _draft_path(settings, world)
        except ModelNotFound as error:
            self._give_up(_absent(model, served), error)
            return
        self._expect(self._reason, self._start_s or _guess_start_s(file))
        found = dataclasses.replace(settings, model_path=file.path, sha256=file.sha256, draft_model_path=draft_path)
        engine = await self._open(world, found)
        try:
            self.ready = await _await_ready(engine, terms.start_timeout_s)
            self._start_s, self._due_s = world.clock.now_s() - began_s, None
            self.engine = engine
            _log_ready(self.name, self.ready)
            await engine.keep_watch(terms.stalled_after_s)
            self._expect(_RESTARTING, terms.restart_min_s + self._start_s)
        except EngineDied:
            self._expect(_RESTARTING, terms.restart_min_s + (self._start_s or _guess_start_s(file)))
        except EngineStartFailed as error:
            self._give_up(_cannot_start(error, served), error)
        except TimeoutError as error:
            self._give_up(f"the engine was not ready within {terms.start_timeout_s:g} s", error)
        finally:
            self.engine = None
            await _close(engine)

    async def _open(self, world: Surroundings, settings: EngineSettings) -> EngineProcess | SharedEngine:
        """An engine of our own, or the one that all workers share, under a name that stands for what it is."""
        if world.run_dir is None:
            return await EngineProcess.start(settings)
        identity = msgspec.json.encode((self.name, settings))
        address = world.run_dir / f"engine-{hashlib.sha256(identity).hexdigest()[:12]}.sock"
        return await SharedEngine.join(settings, address)

    def _expect(self, reason: str, in_s: float) -> None:
        """Down, and ready again soon."""
        if self.world is not None:
            self._reason, self._due_s = reason, self.world.clock.now_s() + in_s

    def _give_up(self, reason: str, error: Exception) -> None:
        """Down until somebody does something. The whole story is for the log alone, and told once."""
        if reason != self._reason:
            _log.error("%s: %s (%s)", self.name, reason, error)
        self._reason, self._due_s = reason, None


def _draft_path(settings: EngineSettings, world: Surroundings) -> str:
    """The model that drafts, by whatever name it was given; without it the engine goes on alone."""
    if not settings.draft_model_path:
        return ""
    try:
        return find_model(settings.draft_model_path, world.model_dir).path
    except ModelNotFound as error:
        _log.warning("tokens are drafted without a model: %s", error)
        return ""


def _absent(model: str, served: str) -> str:
    if model in KNOWN_MODELS or hub_id(model):
        return f"model {model} is not in the cache: run `headrace model pull {model}`"
    return f"there is no model {served}: the log says where it should be"


def _cannot_start(error: EngineStartFailed, served: str) -> str:
    match error.code:
        case "kernels_missing":
            return f"the engine has no kernels to compute {served} with: the log says why"
        case "model_not_found":
            return f"there is no model {served}: the log says where it should be"
        case _:
            return f"the engine cannot load {served}: the log says why"


def _guess_start_s(file: ModelFile) -> float:
    return _PROCESS_START_S + file.size_bytes / _LOAD_BYTES_PER_S


async def _await_ready(engine: EngineProcess | SharedEngine, timeout_s: float) -> Ready:
    """Ends an engine that does not become ready, for all who wait for it."""
    try:
        async with asyncio.timeout(timeout_s):
            return await engine.ready()
    except TimeoutError:
        engine.kill()
        raise


async def _close(engine: EngineProcess | SharedEngine) -> None:
    """Closes it whole even if cancelled meanwhile: no process is left behind."""
    closing = asyncio.create_task(engine.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        raise


def _log_ready(name: str, ready: Ready) -> None:
    measured = ready.self_test
    _log.info(
        "%s is ready: %s on %s, %.0f prompt tokens/s, %.1f ms a token",
        name,
        ready.model,
        ready.kernels,
        measured.prefill_tokens_per_s,
        1000 * measured.decode_s_per_token,
    )
