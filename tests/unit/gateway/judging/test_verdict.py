from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.forecast import RequestKind
from gateway.judgement import JudgedAnswer, Occasion, cannot_say, failed, passed
from gateway.judging.verdict import VerdictTeller, verdict_of

JUDGED = JudgedAnswer(
    request_id="req-1",
    tenant="acme",
    task="",
    route="main",
    backend="alpha",
    model="small",
    occasion=Occasion.SERVED,
    judgement=passed(),
    judgements=(("valid_json", passed()), ("refusal", passed())),
    attempt=1,
    kind=RequestKind.SHORT_IN_SHORT_OUT,
    cost_usd=Decimal("0.01"),
    received_unix_s=1.7e9,
    ended_unix_s=1.7e9 + 5,
)


class Observer:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def judged(self, verdict: Any) -> None:
        """See ``VerdictObserver``."""
        self.told.append(verdict)


@pytest.mark.parametrize(
    ("changes", "task", "request_id"),
    [
        ({}, "req-1", "req-1"),
        ({"task": "t-1"}, "t-1", "req-1"),
        ({"task": "t-1", "occasion": Occasion.CASCADE}, "t-1", "req-1"),
        ({"task": "t-1", "occasion": Occasion.CASCADE, "escalated_for": "valid_json"}, "req-1/1", "req-1/1"),
        ({"task": "t-1", "occasion": Occasion.SHADOW, "attempt": 0}, "req-1/shadow", "req-1/shadow"),
    ],
)
def test_an_answer_that_nobody_saw_is_a_task_of_its_own(changes: Any, task: str, request_id: str) -> None:
    """So that a client's task is never failed by what its client was spared."""
    verdict = verdict_of(replace(JUDGED, **changes))
    (request,) = verdict.requests
    assert (task, request_id, "alpha", "small", Decimal("0.01"), True) == (
        verdict.task,
        request.id,
        request.backend,
        request.model,
        request.cost_usd,
        request.answered,
    )
    assert ("acme", "valid_json+refusal", True, 1.0, 1.7e9 + 5, RequestKind.SHORT_IN_SHORT_OUT) == (
        verdict.tenant,
        verdict.source,
        verdict.success,
        verdict.score,
        verdict.at_unix_s,
        request.kind,
    )


def test_who_learns_hears_of_successes_and_failures_and_of_nothing_else() -> None:
    """An answer of which nobody could say anything teaches nothing; observers are those of the present policy."""
    first, second = Observer(), Observer()
    present: list[Observer] = [first]
    teller = VerdictTeller(lambda: present)
    teller.take_judged(JUDGED)
    present[:] = [second]
    teller.take_judged(replace(JUDGED, judgement=failed("no")))
    teller.take_judged(replace(JUDGED, judgement=cannot_say("who knows")))
    assert ([True], [False]) == ([one.success for one in first.told], [one.success for one in second.told])
