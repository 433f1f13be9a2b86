"""Guards of somebody's own: whatever they do, the policy file says what happens."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import pytest

from gateway.guard import ALLOWED, CannotSay, Seen, Span, Text, Verdict
from gateway.guard_mark import Action, Stage
from gateway.guarding.guardroom import Guardroom
from gateway.guarding.hearing import Hearing
from gateway.guarding.stream_windows import StreamWindows
from gateway.judging.inquiries import Inquiries
from gateway.rules.guards import GuardRule
from gateway.transport.client import open_connections
from gateway.wire.guarded_formats import STREAM_TEXTS
from gateway.wire.sse import SseEvent


class Own:
    """A guard of somebody's own, which does what it is given to do."""

    stages: ClassVar[frozenset[Stage]] = frozenset(Stage)
    actions = (Action.REDACT,)
    longest_chars = 3

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def look(self, seen: Seen) -> Any:
        """See ``Guard.look``."""
        del seen
        return self.act()

    def spans(self, text: str, begin: int) -> list[Span]:
        """See ``WindowGuard.spans``."""
        del text, begin
        found: list[Span] = self.act()
        return found


def _rule(act: Callable[[], Any], *, refuses: bool = True, **more: Any) -> GuardRule:
    given: dict[str, Any] = {
        "name": "own",
        "kind": "own",
        "guard": Own(act),
        "stage": Stage.BEFORE,
        "refuses": refuses,
        "timeout_s": 5.0,
        "concurrency": 1,
        "most_bytes": 100_000,
        "stream": "window",
        "annotations": frozenset({"risk"}),
    }
    return GuardRule(**{**given, **more})


@pytest.fixture
async def room() -> AsyncIterator[Guardroom]:
    """Where they are heard."""
    opened = Guardroom(Inquiries(open_connections, lambda _: None))
    yield opened
    await opened.close()


def _seen(make_request: Any, text: str = "hello") -> Seen:
    return Seen(stage=Stage.BEFORE, request=make_request(text), texts=[Text(text, "text", "user")])


def _raise(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


BAD: dict[str, Callable[[], Any]] = {
    "cannot say": _raise(CannotSay("nothing")),
    "raises": _raise(ZeroDivisionError("hello is secret")),
    "exits": _raise(SystemExit(3)),
    "answers with nothing": lambda: None,
    "says what it may not": lambda: Verdict(action=Action.BLOCK),
    "leaves out a text": lambda: Verdict(action=Action.REDACT, texts=()),
}


@pytest.mark.parametrize("bad", list(BAD))
@pytest.mark.parametrize("length", [5, 40_000])
async def test_one_that_does_not_say_fails_open_or_closed(
    room: Guardroom, make_request: Any, caplog: pytest.LogCaptureFixture, bad: str, length: int
) -> None:
    """On the loop and on a thread; the operator is told, and not a word of what it raised."""
    for refuses, action in ((True, Action.BLOCK), (False, Action.ALLOW)):
        verdict, mark = await room.hear(_rule(BAD[bad], refuses=refuses), _seen(make_request, "x" * length))
        assert (action, action, True) == (verdict.action, mark.action, mark.failed)
    assert ("the guard own could not look" in caplog.text, "secret" in caplog.text) == (True, False)


async def test_one_that_hangs_on_a_long_text_is_done_without(room: Guardroom, make_request: Any) -> None:
    """And is not asked again while it does."""
    release = threading.Event()
    asked = []

    def hang() -> Verdict:
        asked.append(1)
        release.wait(20)
        return ALLOWED

    rule = _rule(hang, timeout_s=0.05)
    try:
        for _ in range(3):
            assert (await room.hear(rule, _seen(make_request, "x" * 40_000)))[1].failed
        assert 2 >= len(asked)
    finally:
        release.set()


async def test_more_than_it_may_look_at_is_not_shown_to_it(room: Guardroom, make_request: Any) -> None:
    """In bytes."""
    rule = _rule(lambda: ALLOWED, most_bytes=10)
    told = [(await room.hear(rule, _seen(make_request, text)))[1].failed for text in ("x" * 10, "é" * 6)]
    assert [False, True] == told


async def test_annotations_are_words_under_names_that_are_allowed(room: Guardroom, make_request: Any) -> None:
    """All others are dropped."""
    told = (("risk", "high"), ("other", "x"), ("risk2", "y"))
    wordy = (("risk", "the user said hello"),)
    for annotations, expected in ((told, (("risk", "high"),)), (wordy, ()), ((("risk", "x" * 65),), ())):
        said = Verdict(action=Action.ALLOW, annotations=annotations)
        assert expected == (await room.hear(_rule(lambda said=said: said), _seen(make_request)))[1].annotations


async def test_a_window_of_somebodys_own_that_raises_fails_open_or_closed(room: Guardroom, make_request: Any) -> None:
    """What it held goes on as it came, or nothing does."""
    event = SseEvent(b"", b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}')
    hearing = Hearing(room, make_request("hi"), ())
    rule = _rule(_raise(ZeroDivisionError()), refuses=False, stage=Stage.AFTER)
    windows = StreamWindows([rule], hearing)
    texts = STREAM_TEXTS[hearing.request.arrival.operation](hearing.request)
    assert [event.data] == [passing.data for passing in windows.feed(texts.passing(event))]
    assert [event.data] == [passing.data for passing in windows.feed(texts.passing(event))]
    assert [] == windows.end()
    assert ["own:failed:allow"] == [mark.in_words() for mark in hearing.marks]
    strict = StreamWindows([_rule(_raise(ZeroDivisionError()), stage=Stage.AFTER)], hearing)
    with pytest.raises(Exception, match="could not look at this"):
        strict.feed(texts.passing(event))


async def test_cancelling_is_no_failure_of_a_guard(room: Guardroom, make_request: Any) -> None:
    """Who hangs up while a service is asked ends the request, and nothing is made of it."""
    release = threading.Event()

    def hang() -> Verdict:
        release.wait(20)
        return ALLOWED

    task = asyncio.create_task(room.hear(_rule(hang), _seen(make_request, "x" * 40_000)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
