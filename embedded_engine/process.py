"""The engine's own process: `python -P -m embedded_engine.process OWNERSHIP FD SETTINGS`, started by the clients.

OWNERSHIP is "own" and FD this process's end of a socket pair, or "shared" and a listening socket; SETTINGS is an
`EngineSettings` as JSON. A thread reads frames and prepares requests (tokenising holds up no stream); the main thread
makes steps and writes frames. The process ends when the last connection has gone, or on SIGTERM. It ignores SIGINT:
Ctrl-C in a terminal reaches the whole group, and the gateway wants its streams to finish.
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

from embedded_engine.embedding import PreparedEmbedding
from embedded_engine.engine import Engine
from embedded_engine.errors import RequestError, StartError
from embedded_engine.intake import Prepared
from embedded_engine.messages import (
    Cancel,
    Check,
    Counted,
    CountTokens,
    Embed,
    Facts,
    Failed,
    FromEngine,
    Generate,
    Ping,
    StartFailed,
)
from embedded_engine.settings import EngineSettings
from embedded_engine.switchboard import IDS_PER_LINE, Event, Request, Switchboard

__all__ = ["main"]

_logger = logging.getLogger(__name__)

_FACTS_INTERVAL_S = 0.25


class _HungUp(msgspec.Struct, frozen=True):
    """A line is gone: nobody waits for its requests."""

    line: int


_Errand = Prepared | PreparedEmbedding | Cancel | Ping | _HungUp


class _Gauge:
    """Turns the engine's counters into `Facts`, at most a few times a second, and at every turn while it is idle."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sent_at_s = time.monotonic()
        self._drawn_tokens = 0
        self._prefilled_tokens = 0
        self.facts = self._measure(1.0)
        """What was read last; who comes new is told this."""

    def read(self) -> list[Facts]:
        """The facts, if they are due."""
        engine, now_s = self._engine, time.monotonic()
        elapsed_s = now_s - self._sent_at_s
        if engine.busy and elapsed_s < _FACTS_INTERVAL_S:
            return []
        self.facts = self._measure(max(elapsed_s, 1e-3))
        self._sent_at_s = now_s
        self._drawn_tokens, self._prefilled_tokens = engine.drawn_tokens, engine.prefilled_tokens
        return [self.facts]

    def _measure(self, elapsed_s: float) -> Facts:
        engine = self._engine
        return Facts(
            queued=engine.queued,
            running=engine.running,
            free_kv_tokens=engine.free_kv_tokens,
            steps=engine.steps,
            tokens_per_s=(engine.drawn_tokens - self._drawn_tokens) / elapsed_s,
            prefill_tokens_per_s=(engine.prefilled_tokens - self._prefilled_tokens) / elapsed_s,
            prefix_tokens=engine.prefix_tokens,
            drafts=engine.drafts,
        )


class _Receiver:
    """Prepares requests for the main thread, or refuses them."""

    def __init__(self, engine: Engine, gauge: _Gauge, switchboard: Switchboard, inbox: "SimpleQueue[_Errand]") -> None:
        self._engine = engine
        self._gauge = gauge
        self._switchboard = switchboard
        self._inbox = inbox

    def greeting(self) -> Sequence[FromEngine]:
        return [self._engine.ready, self._gauge.facts]

    def take(self, message: Request) -> None:
        try:
            match message:
                case Generate():
                    self._inbox.put(self._engine.prepare(message))
                case Embed():
                    self._inbox.put(self._engine.prepare_embedding(message))
                case CountTokens(id=number):
                    self._switchboard.send([Counted(id=number, prompt_tokens=self._engine.count_tokens(message))])
                case Check(id=number, request=request):
                    prompt_tokens = len(self._engine.prepare(request).prompt)
                    self._switchboard.send([Counted(id=number, prompt_tokens=prompt_tokens)])
                case Cancel():
                    self._inbox.put(message)
        except RequestError as error:
            self._switchboard.send([_failed(message.id, error)])
        except Exception as error:  # one request's trouble is not the others'
            _logger.exception("request %d could not be read", message.id)
            failure = RequestError(f"the engine could not read this request: {error}")
            self._switchboard.send([_failed(message.id, failure)])

    def pinged(self) -> None:
        self._inbox.put(Ping())

    def hung_up(self, line: int) -> None:
        self._inbox.put(_HungUp(line))


def serve(engine: Engine, switchboard: Switchboard) -> Never:
    """Make steps and send what comes of them, for ever."""
    inbox: SimpleQueue[_Errand] = SimpleQueue()
    gauge = _Gauge(engine)
    receiver = _Receiver(engine, gauge, switchboard, inbox)
    threading.Thread(target=_listen, args=(switchboard, receiver), name="reader", daemon=True).start()
    while True:
        events = _take_all(engine, inbox)
        events += engine.step()
        switchboard.send(events, gauge.read())


def _listen(switchboard: Switchboard, receiver: _Receiver) -> Never:
    """Ends the process when nobody needs it any more."""
    try:
        _end(switchboard.listen(receiver))
    except Exception:  # without ears the process is of no use: the next one may do better
        _logger.exception("the engine cannot hear anybody any more")
        _end(1)


def _take_all(engine: Engine, inbox: "SimpleQueue[_Errand]") -> list[Event]:
    """What the inbox's errands come to; waits for one when there is nothing else to do."""
    events: list[Event] = []
    while True:
        try:
            errand = inbox.get(block=not engine.busy and not events)
        except Empty:
            return events
        if isinstance(errand, Prepared | PreparedEmbedding):
            try:
                events.append(engine.submit(errand))
            except RequestError as error:
                events.append(_failed(errand.id, error))
            continue
        for number in _abandoned(engine, errand):
            engine.cancel(number)
        if not engine.busy:
            return events  # the gauge must say that the slot is free, or that we are here


def _abandoned(engine: Engine, errand: "Cancel | Ping | _HungUp") -> Sequence[int]:
    if isinstance(errand, Ping):
        return ()
    if isinstance(errand, Cancel):
        return (errand.id,)
    return [number for number in engine.requests if number // IDS_PER_LINE == errand.line]


def _failed(number: int, error: RequestError) -> Failed:
    return Failed(id=number, code=error.code, message=str(error), param=error.param)


def _end(code: int) -> Never:
    """End at once, from any thread: the other may be deep in the kernels."""
    logging.shutdown()
    os._exit(code)


def main(argv: Sequence[str]) -> int:
    """Load the model and serve until nobody needs it any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    ownership, descriptor, settings = argv
    given = socket.socket(fileno=int(descriptor))
    switchboard = Switchboard(listening=given) if ownership == "shared" else Switchboard(own=given)
    try:
        engine = Engine(msgspec.json.decode(settings, type=EngineSettings))
    except StartError as error:
        switchboard.refuse(StartFailed(code=error.code, message=str(error)))
        return 1
    serve(engine, switchboard)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
