"""The engine's own process: `python -P -m embedded_engine.process FD SETTINGS`, started by `client.EngineProcess`.

FD is this process's end of a socket pair, SETTINGS an `EngineSettings` as JSON. A thread reads frames and prepares
requests (tokenising holds up no stream); the main thread makes steps and writes frames. The process ends when its
parent goes away or on SIGTERM. It ignores SIGINT: Ctrl-C in a terminal reaches the whole group, and the gateway wants
its streams to finish.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Never

import msgspec

from embedded_engine.engine import Engine
from embedded_engine.errors import RequestError, StartError
from embedded_engine.frames import FrameReader, ProtocolError, decode_to_engine, frame
from embedded_engine.intake import Prepared
from embedded_engine.messages import (
    Cancel,
    Counted,
    CountTokens,
    Facts,
    Failed,
    FromEngine,
    Generate,
    StartFailed,
    ToEngine,
)
from embedded_engine.settings import EngineSettings

__all__ = ["main"]

_logger = logging.getLogger(__name__)

_RECEIVE_BYTES = 65536
_FACTS_INTERVAL_S = 0.25


class _Line:
    """The socket to the parent; frames from two threads do not mix."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def send(self, messages: Sequence[FromEngine]) -> None:
        if messages:
            with self._writing:
                self._connection.sendall(b"".join(map(frame, messages)))

    def receive(self) -> bytes:
        return self._connection.recv(_RECEIVE_BYTES)


class _Gauge:
    """Turns the engine's counters into `Facts`, at most a few times a second and once more when it falls idle."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sent_at_s = time.monotonic()
        self._drawn_tokens = 0
        self._prefilled_tokens = 0

    def read(self) -> list[Facts]:
        """The facts, if they are due."""
        engine, now_s = self._engine, time.monotonic()
        elapsed_s = now_s - self._sent_at_s
        if engine.busy and elapsed_s < _FACTS_INTERVAL_S:
            return []
        elapsed_s = max(elapsed_s, 1e-3)
        facts = Facts(
            queued=engine.queued,
            running=engine.running,
            free_kv_tokens=engine.free_kv_tokens,
            steps=engine.steps,
            tokens_per_s=(engine.drawn_tokens - self._drawn_tokens) / elapsed_s,
            prefill_tokens_per_s=(engine.prefilled_tokens - self._prefilled_tokens) / elapsed_s,
        )
        self._sent_at_s = now_s
        self._drawn_tokens, self._prefilled_tokens = engine.drawn_tokens, engine.prefilled_tokens
        return [facts]


class _Reader(threading.Thread):
    """Reads what the parent sends, and ends the process when the parent is gone."""

    def __init__(self, line: _Line, engine: Engine, inbox: "SimpleQueue[Prepared | Cancel]") -> None:
        super().__init__(name="reader", daemon=True)
        self._line = line
        self._engine = engine
        self._inbox = inbox

    def run(self) -> None:
        frames = FrameReader()
        try:
            while chunk := self._line.receive():
                for body in frames.feed(chunk):
                    self._take(decode_to_engine(body))
        except (OSError, ProtocolError):
            _logger.exception("the line to the parent broke")
        _end(0)

    def _take(self, message: ToEngine) -> None:
        try:
            match message:
                case Generate():
                    self._inbox.put(self._engine.prepare(message))
                case CountTokens(id=number):
                    self._line.send([Counted(id=number, prompt_tokens=self._engine.count_tokens(message))])
                case Cancel():
                    self._inbox.put(message)
        except RequestError as error:
            self._line.send([_failed(message.id, error)])
        except Exception as error:  # one request's trouble is not the others'
            _logger.exception("request %d could not be read", message.id)
            self._line.send([_failed(message.id, RequestError(f"the engine could not read this request: {error}"))])


def serve(engine: Engine, line: _Line) -> Never:
    """Make steps and send what comes of them, for ever."""
    inbox: SimpleQueue[Prepared | Cancel] = SimpleQueue()
    gauge = _Gauge(engine)
    line.send([engine.ready, *gauge.read()])
    _Reader(line, engine, inbox).start()
    while True:
        events = _take_all(engine, inbox)
        events += engine.step()
        line.send([*events, *gauge.read()])


def _take_all(engine: Engine, inbox: "SimpleQueue[Prepared | Cancel]") -> list[FromEngine]:
    """What the inbox's messages come to; waits for one when there is nothing else to do."""
    events: list[FromEngine] = []
    while True:
        try:
            message = inbox.get(block=not engine.busy and not events)
        except Empty:
            return events
        if isinstance(message, Cancel):
            engine.cancel(message.id)
            if not engine.busy:
                return events  # the gauge must say that the slot is free
            continue
        try:
            events.append(engine.submit(message))
        except RequestError as error:
            events.append(_failed(message.id, error))


def _failed(number: int, error: RequestError) -> Failed:
    return Failed(id=number, code=error.code, message=str(error), param=error.param)


def _end(code: int) -> Never:
    """End at once, from any thread: the other may be deep in the kernels."""
    logging.shutdown()
    os._exit(code)


def main(argv: Sequence[str]) -> int:
    """Load the model and serve until the parent goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    descriptor, settings = argv
    line = _Line(socket.socket(fileno=int(descriptor)))
    try:
        engine = Engine(msgspec.json.decode(settings, type=EngineSettings))
    except StartError as error:
        line.send([StartFailed(code=error.code, message=str(error))])
        return 1
    try:
        serve(engine, line)
    except BrokenPipeError:
        return 0  # the parent is gone


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
