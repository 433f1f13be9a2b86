import asyncio
from typing import Any

from gateway.judgement import Answer, Choice, JudgedAnswer, Occasion, cannot_say
from gateway.judging.court import Court
from gateway.judging.docket import Case, Docket
from gateway.judging.inquiries import Inquiries
from gateway.rules.judging import Judging
from policies.judge.non_empty import NonEmpty

ANSWER = Answer(choices=(Choice(text="hello"),))


class Sink:
    """Keeps what it is told, or breaks."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.told: list[JudgedAnswer] = []
        self._breaks = breaks

    def take_judged(self, judged: JudgedAnswer) -> None:
        """See ``JudgedSink``."""
        if self._breaks:
            raise ZeroDivisionError
        self.told.append(judged)


def _docket(clock: Any, **bounds: int) -> Docket:
    court = Court(Inquiries(lambda _: None, {}.get))  # type: ignore[arg-type,return-value]  # nobody connects
    return Docket(court, clock=clock, **bounds)


def _case(request: Any, number: int = 0, *, length_bytes: int = 10) -> Case:
    draft = JudgedAnswer(
        request_id=f"req-{number}",
        tenant="acme",
        task="",
        route="main",
        backend="alpha",
        model="small",
        occasion=Occasion.SERVED,
        judgement=cannot_say("not judged yet"),
    )
    judging = Judging(judges=(("non_empty", NonEmpty()),))
    return Case(judging=judging, request=request, read=lambda: ANSWER, length_bytes=length_bytes, draft=draft)


async def test_cases_are_judged_and_everybody_is_told(clock: Any, make_request: Any) -> None:
    """One sink that breaks keeps it from nobody else."""
    docket, sink = _docket(clock), Sink()
    docket.tell(Sink(breaks=True), sink)
    for number in range(5):
        docket.put(_case(make_request("hi"), number))
    await docket.idle()
    assert [True] * 5 == [judged.judgement.success for judged in sink.told]
    assert {f"req-{number}" for number in range(5)} == {judged.request_id for judged in sink.told}
    assert (clock.unix_s(), clock.unix_s()) == (sink.told[0].started_unix_s, sink.told[0].ended_unix_s)
    await docket.close()


async def test_what_waits_is_bounded_in_number_and_in_bytes(clock: Any, make_request: Any) -> None:
    """What finds no room is counted, and who counts for metrics is told."""
    noted: list[tuple[str, str]] = []
    docket, sink = _docket(clock, capacity=3, capacity_bytes=100), Sink()
    docket.tell(sink, note=lambda route, reason: noted.append((route, reason)))
    for number in range(5):
        docket.put(_case(make_request("hi"), number))
    assert (3, {"queue_full": 2}, [("main", "queue_full")] * 2) == (docket.waiting, dict(docket.skipped), noted)
    await docket.idle()
    docket.put(_case(make_request("hi"), length_bytes=101))
    assert 3 == docket.skipped["queue_full"]
    docket.put(_case(make_request("hi"), length_bytes=100))
    await docket.idle()
    assert 4 == len(sink.told)
    await docket.close()


async def test_the_end_lets_what_waits_be_judged_and_takes_nothing_more(clock: Any, make_request: Any) -> None:
    """And it can come twice."""
    docket, sink = _docket(clock), Sink()
    docket.tell(sink)
    for number in range(20):
        docket.put(_case(make_request("hi"), number))
    await docket.close()
    docket.put(_case(make_request("hi")))
    await docket.close()
    assert (20, 0, {"shutting_down": 1}) == (len(sink.told), docket.waiting, dict(docket.skipped))
    assert [] == [task for task in asyncio.all_tasks() if task.get_name() == "headrace-docket"]
