"""The metrics of all workers, from whichever of them is asked.

Each worker writes what it has counted to a file of its own in the directory that they share, at most once in
``PUBLISH_S`` and only when it has changed; the file is replaced whole. Whoever is scraped adds the others' files to its
own numbers, which are exact. A worker that takes a dead one's place goes on from its file: counters never go back, and
there are never more files than workers.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from gateway.seldom import Seldom
from gateway.telemetry.live_gauges import BackendState, Live
from gateway.telemetry.metrics import Counted, Metrics

PUBLISH_S = 0.75
"""With what the ledger takes to hand entries over, and the writing, a worker's numbers are never older than 1 s."""

_log = logging.getLogger(__name__)


class _Present(msgspec.Struct, frozen=True):
    """What ``Live`` says at one moment; what only ever grows is in it too."""

    in_flight: int
    queued: int
    backends: list[tuple[str, bool, int, bool, int | None]]
    dropped: dict[str, int]
    observer_failures: int
    spooled: int = 0


class _Page(msgspec.Struct, frozen=True):
    """A worker's file."""

    pid: int
    counted: Counted
    present: _Present


_decode = msgspec.msgpack.Decoder(_Page).decode
_encode = msgspec.msgpack.Encoder().encode


class SiblingMetrics:
    """What ``/metrics`` answers where there are several workers.

    Args:
        metrics: This worker's own.
        live: Its own present.
        run_dir: The directory that the workers share.
        worker: Its number among them, which the worker that replaces it will have, too.
    """

    def __init__(self, metrics: Metrics, live: Live, *, run_dir: Path, worker: int) -> None:
        self._metrics = metrics
        self._live = live
        self._file = run_dir / f"metrics-{worker}.msgpack"
        self._inherited = _NOTHING
        self._published = b""
        self._publishing: asyncio.Task[None] | None = None
        self._complain = Seldom(_log)

    def start(self) -> None:
        """Takes over what a predecessor has left, and publishes from now on."""
        if (page := _read(self._file)) is not None:
            self._metrics.include(page.counted)
            self._inherited = _past(page.present)
        self._publishing = asyncio.create_task(self._publish_for_ever(), name="headrace-metrics")

    async def close(self) -> None:
        """Publishes for the last time; idempotent."""
        task, self._publishing = self._publishing, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            await self._publish()

    def render(self, accept: str) -> tuple[bytes, str]:
        """See ``Metrics.render``; of all workers together."""
        siblings = [page for path in self._file.parent.glob("metrics-*.msgpack") if (page := self._sibling(path))]
        presents = [
            self._present(),
            *(page.present if _is_alive(page.pid) else _past(page.present) for page in siblings),
        ]
        live = replace(_sum(presents), canaries=self._live.canaries)  # each worker knows what all have found
        return self._metrics.together_with((page.counted for page in siblings), live).render(accept)

    async def _publish_for_ever(self) -> None:
        while True:
            await self._publish()
            await asyncio.sleep(PUBLISH_S)

    async def _publish(self) -> None:
        page = _encode(_Page(pid=os.getpid(), counted=self._metrics.counted(), present=self._present()))
        if page != self._published:
            try:
                await asyncio.to_thread(_replace, self._file, page)
            except OSError as error:
                self._complain("the other workers cannot be told what this one has counted: %s", error)
            else:
                self._published = page

    def _present(self) -> _Present:
        """This worker's own, and of its predecessors what only ever grows."""
        live = self._live
        mine = _Present(
            in_flight=live.in_flight(),
            queued=live.queued(),
            backends=[(one.name, one.up, one.in_flight, one.rests, one.limit) for one in live.backends()],
            dropped=dict(live.dropped()),
            observer_failures=live.observer_failures(),
            spooled=live.spooled(),
        )
        return _added([mine, self._inherited])

    def _sibling(self, path: Path) -> _Page | None:
        return _read(path) if path != self._file else None


_NOTHING = _Present(in_flight=0, queued=0, backends=[], dropped={}, observer_failures=0)


def _past(present: _Present) -> _Present:
    """What remains of a worker that is no more."""
    return _Present(
        in_flight=0, queued=0, backends=[], dropped=present.dropped, observer_failures=present.observer_failures
    )


def _added(presents: Iterable[_Present]) -> _Present:
    """The sums. A backend is up where one worker at least can use it: it takes requests then.

    What each has found that a backend takes adds up, too: each sends as many.
    """
    in_flight = queued = observer_failures = spooled = 0
    backends: dict[str, tuple[bool, int, bool, int | None]] = {}
    dropped: dict[str, int] = {}
    for present in presents:
        in_flight += present.in_flight
        queued += present.queued
        spooled += present.spooled
        observer_failures += present.observer_failures
        for name, up, busy, rests, limit in present.backends:
            up_there, busy_there, rests_there, limit_there = backends.get(name, (False, 0, False, None))
            together = limit_there if limit is None else limit + (limit_there or 0)
            backends[name] = (up or up_there, busy + busy_there, rests or rests_there, together)
        for sink, count in present.dropped.items():
            dropped[sink] = dropped.get(sink, 0) + count
    return _Present(
        in_flight=in_flight,
        queued=queued,
        backends=[(name, *state) for name, state in backends.items()],
        dropped=dropped,
        observer_failures=observer_failures,
        spooled=spooled,
    )


def _sum(presents: Iterable[_Present]) -> Live:
    all_of_them = _added(presents)
    return Live(
        in_flight=lambda: all_of_them.in_flight,
        queued=lambda: all_of_them.queued,
        spooled=lambda: all_of_them.spooled,
        backends=lambda: [
            BackendState(name=name, up=up, in_flight=in_flight, rests=rests, limit=limit)
            for name, up, in_flight, rests, limit in all_of_them.backends
        ],
        dropped=lambda: all_of_them.dropped,
        observer_failures=lambda: all_of_them.observer_failures,
    )


def _read(path: Path) -> _Page | None:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
