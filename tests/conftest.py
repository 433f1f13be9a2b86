"""What several test packages share: a clock, calls for backends, a sink that records."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings

from gateway.clock import SystemClock
from gateway.ports import Surroundings
from gateway.transport.client import open_connections
from gateway.types import EMBEDDINGS, OLLAMA, Arrival, Call, ChatRequest, Finish, Operation, TraceContext
from gateway.wire.format import Format, StreamView, WholeView

settings.register_profile("headrace", deadline=None)  # no test asserts a time, and the machine may be busy
settings.load_profile("headrace")

pytest_plugins = [
    "tests.factories",
    "tests.exchanges",
    "tests.fleets",
    "tests.gateways",
    "tests.loopback",
    "tests.postgres_servers",
    "tests.redis_servers",
]

_OLLAMA_OPTIONS = {"max_tokens": "num_predict", "seed": "seed", "temperature": "temperature"}
TRACE = TraceContext(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")


@dataclass
class HandClock:
    """The ``Clock`` port, turned by hand: ``sleep`` returns when ``advance`` has passed its time."""

    monotonic_s: float = 1000.0
    epoch_s: float = 1_700_000_000.0
    slept_s: list[float] = field(default_factory=list)
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    def now_s(self) -> float:
        """See ``Clock``."""
        return self.monotonic_s

    def unix_s(self) -> float:
        """See ``Clock``."""
        return self.epoch_s

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``."""
        self.slept_s.append(seconds)
        self.asleep.set()
        alarm = asyncio.get_running_loop().create_future()
        self._waiting.append((self.monotonic_s + seconds, alarm))
        await alarm

    def advance(self, seconds: float) -> None:
        """Lets ``seconds`` pass."""
        self.monotonic_s += seconds
        self.epoch_s += seconds
        for due_s, alarm in self._waiting:
            if due_s <= self.monotonic_s and not alarm.done():
                alarm.set_result(None)


class RecordingSink:
    """The ``Sink`` port with a client that takes everything: judges by the real wire format, and keeps the bytes."""

    def __init__(self, request: ChatRequest) -> None:
        self.streamed: bool | None = None
        self.received = b""
        self.begun = asyncio.Event()
        self.pushed = asyncio.Event()
        self._format = _format(request.arrival.operation)
        self._request = request
        self._view: StreamView | None = None

    def begin(self, *, streamed: bool) -> None:
        """See ``Sink``."""
        assert self.streamed is None, "begin was called twice"
        self.streamed = streamed
        if streamed:
            self._view = self._format.stream(self._request)
        self.begun.set()

    async def push(self, data: bytes) -> None:
        """See ``Sink``."""
        assert self.streamed is not None, "push before begin"
        assert data, "an empty piece says nothing"
        self.received += data
        if self._view is not None:
            self._view.feed(data)
        self.pushed.set()
        if self._view is not None and self._view.error is not None:
            raise self._view.error

    async def end(self) -> Finish:
        """See ``Sink``."""
        assert self.streamed is not None, "end before begin"
        view: StreamView | WholeView
        if self._view is not None:
            view = self._view
            view.end()
        else:
            view = self._format.whole(self._request)
            view.take(self.received)
        return Finish(reason=view.finish_reason, usage=view.usage, model=view.model)

    @property
    def texts(self) -> dict[int, str]:
        """The text of each choice, put together again."""
        if self._request.arrival.operation is Operation.MESSAGES:
            return {0: "".join(self._blocks())}
        if self._request.arrival.operation in OLLAMA:
            lines = [msgspec.json.decode(line) for line in self.received.splitlines()]
            said = [line.get("message", {}).get("content") or line.get("response", "") for line in lines]
            return {0: "".join(said)}
        texts: dict[int, str] = {}
        for choice in self._choices():
            content = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            texts[choice["index"]] = texts.get(choice["index"], "") + (content.get("content") or "")
        return texts

    def _blocks(self) -> list[str]:
        if not self.streamed:
            return [block.get("text", "") for block in msgspec.json.decode(self.received)["content"]]
        events = [line[6:] for line in self.received.split(b"\n") if line.startswith(b"data: {")]
        return [msgspec.json.decode(event).get("delta", {}).get("text", "") for event in events]

    def _choices(self) -> list[dict]:
        if not self.streamed:
            return msgspec.json.decode(self.received)["choices"]
        events = [line[6:] for line in self.received.split(b"\n") if line.startswith(b"data: {")]
        return [choice for event in events for choice in msgspec.json.decode(event).get("choices", [])]


def _format(operation: Operation) -> Format:
    from gateway.wire.formats import FORMATS  # here, so that tests of other rooms run without the wire

    return FORMATS[operation]


@pytest.fixture
def hand_clock() -> HandClock:
    """A clock that only the test turns."""
    return HandClock()


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Surroundings]:
    """Makes the world of a backend: the system's clock, and the given secrets by name."""
    no_models = tmp_path_factory.mktemp("no_models")

    def make(*, clock: HandClock | None = None, model_dir: Path = no_models, **secrets: str) -> Surroundings:
        return Surroundings(
            clock=clock or SystemClock(),
            secret=secrets.get,
            connect=open_connections,
            behind_proxy=lambda _: False,
            model_dir=model_dir,
        )

    return make


@pytest.fixture(scope="session")
def make_call() -> Callable[..., Call]:
    """Makes a call from the fields of a client's body, read by the real wire format."""

    def make(operation: Operation = Operation.CHAT, *, model: str = "served", **fields: object) -> Call:
        prompt = {"messages": [{"role": "user", "content": "Say a few words."}]}
        if operation in {Operation.COMPLETION, Operation.OLLAMA_GENERATE, Operation.OLLAMA_EMBEDDINGS}:
            prompt = {"prompt": "Once upon a time"}
        elif operation in EMBEDDINGS:
            prompt = {"input": "Once upon a time"}
        if operation in OLLAMA:
            options = {_OLLAMA_OPTIONS[name]: fields.pop(name) for name in list(fields) if name in _OLLAMA_OPTIONS}
            fields |= {"options": options} if options else {}
        arrival = Arrival(
            id="req_1", operation=operation, tenant="t", received_s=0.0, received_unix_s=1.7e9, trace=TRACE
        )
        body = msgspec.json.encode({"model": "asked", **prompt, **fields})
        return Call(request=_format(operation).read(arrival, body), model=model, trace=TRACE)

    return make


@pytest.fixture(scope="session")
def recording_sink() -> Callable[[Call], RecordingSink]:
    """Makes a sink that records what is pushed for a call."""
    return lambda call: RecordingSink(call.request)


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model in the user's model cache, pulled there if need be."""
    from embedded_engine.known_models import DEFAULT_MODEL
    from embedded_engine.models import default_model_dir
    from embedded_engine.pull import PullFailed, pull_model

    try:
        model = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None)
    except PullFailed as error:
        pytest.skip(f"the default model cannot be pulled: {error}")
    return Path(model.path)
