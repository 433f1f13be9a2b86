"""What guards cost: CPU time before a request, after a whole answer and for each event of a stream; characters held.

Patterns are for numbers of cards, phone numbers, addresses and one word; the texts have a few of each. A stream is of
words, an event each, as most providers send it. Each figure is the best of several rounds, so that a busy machine tells
in none of them. With ``--seed`` the texts are others.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gateway.exchange import RawHeaders
from gateway.guard import Seen
from gateway.guard_mark import Stage
from gateway.guarding.guarded_answer import GuardedAnswer
from gateway.guarding.guardroom import Guardroom
from gateway.guarding.hearing import Hearing
from gateway.guarding.whole_texts import body_with, request_texts
from gateway.judging.inquiries import Inquiries
from gateway.price import Usage
from gateway.rules.guard_specs import GuardSpec, split
from gateway.rules.guards import GuardRule, build_guards
from gateway.transport.client import open_connections
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.formats import FORMATS
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer

OUT = Path(__file__).parent / "out" / "guards.json"
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
ARRIVAL = Arrival(id="r", operation=Operation.CHAT, tenant="t", received_s=0.0, received_unix_s=0.0, trace=TRACE)
PATTERNS = [
    r"\b[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}\b",
    r"\+[0-9]{2}[ 0-9]{8,14}\b",
    r"\b[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]{1,63}\.[a-z]{2,10}\b",
    "(?i)confidential",
]
FINDS = ["4111 1111 1111 1111", "+49 170 1234567", "someone@example.com", "Confidential"]


class Nowhere:
    """An exchange that counts what it is sent. ``held`` is the most that was behind what came."""

    operation = Operation.CHAT
    headers: RawHeaders = ()
    gone = False
    started = False
    streaming = False

    def __init__(self) -> None:
        self.sent = 0

    async def body(self) -> bytes:
        """There is none."""
        return b""

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Takes a whole answer."""
        del status, headers
        self.sent += len(body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """Begins a stream."""
        del status, headers
        self.streaming = True

    async def write(self, data: bytes) -> None:
        """Takes a piece."""
        self.sent += len(data)

    async def close(self) -> None:
        """Ends it."""
        self.streaming = False


def rule(**fields: Any) -> GuardRule:
    """A guard, as a policy file would have it."""
    guards = build_guards([GuardSpec(**split({"on_error": "refuse", **fields}))], "here", client_s=60)
    assert guards is not None  # one was given
    return guards.rules[0]


def words(count: int, rng: random.Random) -> list[str]:
    """So many words, of which one in fifty is to be found."""
    plain = [f"word{number}" for number in rng.sample(range(10_000), count)]
    return [rng.choice(FINDS) if rng.random() < 0.02 else word for word in plain]


def request_of(text: str) -> ChatRequest:
    """A chat that says it."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    return FORMATS[Operation.CHAT].read(ARRIVAL, json.dumps(body).encode())


def best_us(work: Callable[[], object], rounds: int) -> float:
    """CPU microseconds, of the best round."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) * 1e6


def before(guard: GuardRule, request: ChatRequest) -> None:
    """Looks at a request; what is redacted makes another request of it."""
    texts = request_texts(request)
    said: Any = guard.guard.look(Seen(stage=Stage.BEFORE, request=request, texts=texts.transcript.texts))
    if getattr(said, "texts", ()):
        FORMATS[Operation.CHAT].read(ARRIVAL, body_with(request, texts.edits(said.texts)))


async def after(guard: GuardRule, request: ChatRequest, pieces: list[bytes], *, streamed: bool) -> Nowhere:
    """Sends an answer past a guard."""
    room = Guardroom(Inquiries(open_connections, lambda _: None))
    nowhere = Nowhere()
    answer = GuardedAnswer(nowhere, [guard], Hearing(room, request, ()))
    if streamed:
        await answer.open(200, ())
        for piece in pieces:
            await answer.write(piece)
        await answer.close()
    else:
        await answer.answer(200, (), pieces[0])
    await room.close()
    return nowhere


def streamed(guard: GuardRule, request: ChatRequest, events: list[bytes]) -> Nowhere:
    """Sends a stream past a guard."""
    return asyncio.run(after(guard, request, events, streamed=True))


async def held_chars(guard: GuardRule, request: ChatRequest, said: list[str], pieces: list[bytes]) -> int:
    """The most characters that have come and not gone on, but for those of the event that has just come."""
    room = Guardroom(Inquiries(open_connections, lambda _: None))
    answer = GuardedAnswer(Nowhere(), [guard], Hearing(room, request, ()))
    await answer.open(200, ())
    most = 0
    for piece, _ in zip(pieces, ["", *said], strict=False):
        await answer.write(piece)
        path: Any = answer._path
        waiting = path._windows._watches[0].window._held
        texts = [growth.old for passing in list(waiting)[1:] for growth in passing.growths]
        most = max(most, sum(map(len, texts)))
    await room.close()
    return most


def main() -> None:
    """Prints the table and writes it beside the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    said = words(given.words, random.Random(given.seed))  # noqa: S311  # no secret
    text = " ".join(said)
    request = request_of(text)
    writer = StreamWriter(Operation.CHAT, "id", "m", 1)
    events = [
        writer.opening(0),
        *(writer.text(0, f" {word}") for word in said),
        writer.finish(0, "stop"),
        writer.done(),
    ]
    whole = [whole_answer(Operation.CHAT, "id", "m", 1, [Answered(text, "stop")], Usage(output_tokens=given.words))]
    redacting = {"use": "pattern", "patterns": PATTERNS, "action": "redact"}
    asking = {"use": "cel", "expression": 'texts.exists(t, t.matches("(?i)never said"))', "action": "block"}
    window = rule(when="after", stream="window", **redacting)
    rules_of = {
        "pattern before": rule(when="before", **redacting),
        "cel before": rule(when="before", **asking),
        "pattern": rule(when="after", **redacting),
        "cel": rule(when="after", **asking),
    }
    wholes: dict[str, Callable[[], object]] = {
        "before, pattern": lambda: before(rules_of["pattern before"], request),
        "before, cel": lambda: before(rules_of["cel before"], request),
        "after, whole, pattern": lambda: asyncio.run(after(rules_of["pattern"], request, whole, streamed=False)),
        "after, whole, cel": lambda: asyncio.run(after(rules_of["cel"], request, whole, streamed=False)),
    }
    empty_us = best_us(lambda: asyncio.run(asyncio.sleep(0)), given.rounds)
    figures = {name: best_us(work, given.rounds) - ("after" in name) * empty_us for name, work in wholes.items()}
    streams = {
        "stream, window": window,
        "stream, hold, pattern": rules_of["pattern"],
        "stream, hold, cel": rules_of["cel"],
    }
    per_event = {
        name: (best_us(partial(streamed, it, request, events), given.rounds) - empty_us) / len(events)
        for name, it in streams.items()
    }
    for name, microseconds in figures.items():
        print(f"{name:<24} {microseconds:>8.0f} us CPU for {len(text):,} characters")
    for name, microseconds in per_event.items():
        print(f"{name:<24} {microseconds:>8.1f} us CPU an event")
    held = asyncio.run(held_chars(window, request, said, events))
    longest = getattr(window.guard, "longest_chars", None)
    print(f"held back by the window: at most {held} characters; the longest match may have {longest}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(
        json.dumps({"us": figures, "us_per_event": per_event, "held_chars": held, "longest_chars": longest}, indent=1)
    )


if __name__ == "__main__":
    main()
