"""What judges said, as a verdict on the request's task: for whoever learns from verdicts."""

from collections.abc import Callable, Sequence

from gateway.judgement import JudgedAnswer, Occasion
from gateway.task import JudgedRequest, Verdict, VerdictObserver


class VerdictTeller:
    """Tells observers, who may change with a reload. An answer of which nobody could say anything teaches nothing.

    An answer that was served speaks for its task, or for its request where that names none. One that no client has seen
    (of a cascade, of a shadow) is a task of its own, so that who answered it gets the credit, and nobody else.
    """

    def __init__(self, observers: Callable[[], Sequence[VerdictObserver]]) -> None:
        self._observers = observers

    def take_judged(self, judged: JudgedAnswer) -> None:
        """See ``JudgedSink``."""
        if judged.judgement.success is None:
            return
        verdict = verdict_of(judged)
        for observer in self._observers():
            observer.judged(verdict)


def verdict_of(judged: JudgedAnswer) -> Verdict:
    """The verdict, on one request, whose backend, model and cost are those of the answer itself."""
    seen = judged.occasion is not Occasion.SHADOW and not judged.escalated_for
    place = "shadow" if judged.occasion is Occasion.SHADOW else str(judged.attempt)
    task = (judged.task or judged.request_id) if seen else f"{judged.request_id}/{place}"
    return Verdict(
        tenant=judged.tenant,
        task=task,
        success=judged.judgement.success,
        source="+".join(name for name, _ in judged.judgements) or judged.occasion,
        score=judged.judgement.score,
        at_unix_s=judged.ended_unix_s,
        requests=(
            JudgedRequest(
                id=judged.request_id if seen else task,
                route=judged.route,
                backend=judged.backend,
                model=judged.model,
                answered=True,
                kind=judged.kind,
                cost_usd=judged.cost_usd,
                received_unix_s=judged.received_unix_s,
                shown=seen,
            ),
        ),
    )
