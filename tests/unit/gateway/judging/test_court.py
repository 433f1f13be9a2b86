import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.judgement import Answer, Choice, CommandInquiry, Judgement, Reply, cannot_say, failed, passed
from gateway.judging import court as module
from gateway.judging.court import Court
from gateway.judging.inquiries import Inquiries
from gateway.judging.threads import COUNT
from gateway.rules.judging import Judging
from gateway.types import ChatRequest

ANSWER = Answer(choices=(Choice(text="hello"),))


@dataclass(frozen=True)
class Says:
    """A judge that says one thing."""

    what: Any

    def judge(self, request: ChatRequest, answer: Answer) -> Any:  # noqa: ARG002  # the port's signature
        """See ``Judge``."""
        return self.what


@dataclass(frozen=True)
class Asks:
    """A judge that asks ``command``, and concludes ``what``."""

    command: tuple[str, ...]
    what: Any = passed()  # noqa: RUF009  # a frozen value

    def judge(self, request: ChatRequest, answer: Answer) -> CommandInquiry:  # noqa: ARG002  # the port's signature
        """See ``Judge``."""
        return CommandInquiry(command=self.command, body=b"", timeout_s=20.0, max_reply_bytes=10)

    def conclude(self, reply: Reply) -> Any:
        """See ``InquiringJudge``."""
        if isinstance(self.what, Exception):
            raise self.what
        return self.what if reply.code == 0 else failed("it ends with 1")


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    """Judges are heard here."""
    opened = Court(Inquiries(lambda _: None, {}.get))  # type: ignore[arg-type,return-value]  # nobody connects
    yield opened
    await opened.close()


def _judging(*said: Any, every: bool = True) -> Judging:
    judges = tuple((f"judge-{at}", one if isinstance(one, Asks) else Says(one)) for at, one in enumerate(said))
    return Judging(judges=judges, every=every)


YES, NO, UNSURE = passed(), failed("no"), cannot_say("who knows")
GOOD, POOR = Judgement(success=True, score=0.9), Judgement(success=True, score=0.6)


@pytest.mark.parametrize(
    ("said", "every", "success", "score", "reason"),
    [
        ((YES, YES), True, True, 1.0, ""),
        ((GOOD, POOR), True, True, 0.6, ""),
        ((GOOD, POOR), False, True, 0.9, ""),
        ((YES, NO), True, False, 0.0, "judge-1: no"),
        ((YES, NO), False, True, 1.0, ""),
        ((NO, NO), False, False, 0.0, "judge-0: no"),
        ((YES, UNSURE), True, True, 1.0, ""),
        ((NO, UNSURE), False, False, 0.0, "judge-0: no"),
        ((UNSURE, UNSURE), True, None, None, "judge-0: who knows"),
        ((UNSURE, UNSURE), False, None, None, "judge-0: who knows"),
    ],
)
async def test_what_all_of_them_say_together(
    court: Court,
    make_request: Callable[..., ChatRequest],
    said: tuple[Judgement, ...],
    every: bool,
    success: bool | None,
    score: float | None,
    reason: str,
) -> None:
    """All must pass, or any; who cannot say does not count, unless nobody can."""
    opinion = await court.hear(_judging(*said, every=every), make_request("hi"), lambda: ANSWER)
    assert (success, score, reason) == (opinion.together.success, opinion.together.score, opinion.together.reason)
    assert said == tuple(one for _, one in opinion.each)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (ValueError("quotes the answer"), "judge-0: it answers with a ValueError"),
        (True, "judge-0: it answers with a bool"),
        (None, "judge-0: it answers with a NoneType"),
    ],
)
async def test_what_is_no_judgement_is_none(
    court: Court, make_request: Callable[..., ChatRequest], what: Any, reason: str
) -> None:
    """Somebody's own judge may answer anything."""
    opinion = await court.hear(_judging(what), make_request("hi"), lambda: ANSWER)
    assert (None, reason) == (opinion.together.success, opinion.together.reason)


async def test_a_reason_is_cut_to_what_may_be_kept(court: Court, make_request: Callable[..., ChatRequest]) -> None:
    """It goes on the ledger."""
    opinion = await court.hear(_judging(failed("x" * 5000)), make_request("hi"), lambda: ANSWER)
    assert 200 == len(opinion.each[0][1].reason)


async def test_an_answer_that_cannot_be_read_is_nobodys_fault(
    court: Court, make_request: Callable[..., ChatRequest]
) -> None:
    """All judges cannot say."""
    opinion = await court.hear(_judging(YES, NO), make_request("hi"), lambda: None)
    assert [None, None] == [one.success for _, one in opinion.each]


async def test_nobody_is_asked_where_it_is_decided(court: Court, make_request: Callable[..., ChatRequest]) -> None:
    """A failure here saves the question to a service or a program."""
    never = Asks(("/does/not/exist",))
    opinion = await court.hear(_judging(NO, never), make_request("hi"), lambda: ANSWER)
    assert (False, "not asked: it is decided") == (opinion.together.success, opinion.each[1][1].reason)
    opinion = await court.hear(_judging(YES, never), make_request("hi"), lambda: ANSWER)
    assert "it cannot be run: FileNotFoundError" == opinion.each[1][1].reason


@pytest.mark.parametrize(
    ("judge", "success", "reason"),
    [
        (Asks(("/bin/true",)), True, ""),
        (Asks(("/bin/false",)), False, "it ends with 1"),
        (Asks(("/bin/true",), ZeroDivisionError("words")), None, "it raised ZeroDivisionError"),
        (Asks(("/bin/true",), "yes"), None, "it answers with a str"),
    ],
)
async def test_who_asks_concludes_from_the_reply(
    court: Court, make_request: Callable[..., ChatRequest], judge: Asks, success: bool | None, reason: str
) -> None:
    """And where it breaks, it cannot say."""
    opinion = await court.hear(_judging(judge), make_request("hi"), lambda: ANSWER)
    assert (success, reason) == (opinion.each[0][1].success, opinion.each[0][1].reason)


async def test_a_judge_runs_on_no_event_loop(court: Court, make_request: Callable[..., ChatRequest]) -> None:
    """Neither do those who read the answer: serving goes on meanwhile."""
    here, found = threading.get_ident(), []

    def read() -> Answer:
        found.append(threading.get_ident())
        return ANSWER

    await court.hear(_judging(YES), make_request("hi"), read)
    assert here not in found
    assert 1 == len(found)


@pytest.mark.parametrize("within_s", [None, 0.01])
async def test_a_judge_that_does_not_come_to_an_end_cannot_say(
    court: Court, make_request: Callable[..., ChatRequest], monkeypatch: pytest.MonkeyPatch, within_s: float | None
) -> None:
    """Nobody waits longer than the court's patience, or than the request has time."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.01 if within_s is None else 30.0)
    gate = threading.Event()

    def read() -> Answer:
        gate.wait(30)
        return ANSWER

    opinion = await court.hear(_judging(YES, NO), make_request("hi"), read, within_s=within_s)
    gate.set()
    assert [(None, "not judged within 0.01 s")] * 2 == [(one.success, one.reason) for _, one in opinion.each]


async def test_judges_that_hang_hold_up_nobody_else(
    court: Court, make_request: Callable[..., ChatRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are heard however many hang; those are not asked again before they come back, and then they are."""
    gate = threading.Event()

    def hang() -> Answer:
        gate.wait(30)
        return ANSWER

    stuck = [_judging(YES) for _ in range(COUNT + 1)]
    for judging in stuck:
        monkeypatch.setattr(module, "PATIENCE_S", 0.05)
        opinion = await court.hear(judging, make_request(""), hang)
        assert "judge-0: not judged within 0.05 s" == opinion.together.reason
        monkeypatch.setattr(module, "PATIENCE_S", 0.0)
        opinion = await court.hear(judging, make_request(""), lambda: ANSWER)
        assert "judge-0: an earlier answer is still looked at" == opinion.together.reason
    monkeypatch.setattr(module, "PATIENCE_S", 30.0)
    assert YES == (await court.hear(_judging(YES), make_request(""), lambda: ANSWER)).together
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "headrace-judge")
    gate.set()
    assert YES == (await court.hear(stuck[0], make_request(""), lambda: ANSWER)).together


async def test_the_one_whose_word_decided_is_named(court: Court, make_request: Callable[..., ChatRequest]) -> None:
    """For the header and the counter of escalations."""
    for said, speaker in (((YES, NO), "judge-1"), ((UNSURE,), "judge-0"), ((YES,), "judge-0")):
        opinion = await court.hear(_judging(*said), make_request("hi"), lambda: ANSWER)
        assert speaker == opinion.speaker
