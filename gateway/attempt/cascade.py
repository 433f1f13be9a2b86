"""A cascade: the cheap backend first, its answer judged before anybody sees it, the next step where it does not pass.

The last step's answer goes out as it comes. What fails or takes too long goes further like what did not pass. All steps
share the request's deadline and its attempts, of which one is kept for each step that is still to come; the request
costs what all of its attempts cost.
"""

from msgspec.structs import replace

from gateway.attempt.answer_headers import holding_headers
from gateway.attempt.failover import Failover
from gateway.decide import decide_step, in_turn
from gateway.errors import ClientGone, HeadraceError, ShuttingDown
from gateway.judgement import Occasion, cannot_say
from gateway.judging.court import Opinion
from gateway.judging.docket import Docket, with_opinion
from gateway.judging.draft import draft, served_attempt
from gateway.judging.held import Held
from gateway.rules.judging import Judging
from gateway.rules.route import CascadeStep
from gateway.types import Decision

ESCALATED = b"x-headrace-escalated"


class Cascade:
    """Serves one request of a route that has a cascade, with a loop for each step.

    Args:
        loop: the loop that would serve it without a cascade.
        docket: where judges are heard.
    """

    def __init__(self, loop: Failover, docket: Docket) -> None:
        self._loop = loop
        self._docket = docket
        self._journal = loop.journal
        self._clock = loop.bench.clock
        self._held = Held(loop.exchange, holding_headers(loop.ctx.request), self._clock.now_s)
        self._deadline_s = loop.limits.now_s() + loop.route.patience.total_s
        self._reasons: list[str] = []

    async def run(self, decision: Decision) -> None:
        """Serves the request, or says why not; every attempt of every step is in the journal.

        Raises:
            HeadraceError: the last step's failure, or one that no other step would mend.
        """
        steps = self._loop.route.cascade
        decisions = [_part(decision, step) for step in steps]
        try:
            for number, step in enumerate(steps):
                if number > 0:
                    decisions[number] = await self._decide_anew(step)
                    self._journal.decision = in_turn(decisions)
                reason = await self._step(step, decisions[number], later=len(decisions) - 1 - number)
                if reason is None:
                    self._note_hold(step)
                    return
                self._go_further(reason)
        finally:
            await self._held.quiet()

    async def _step(self, step: CascadeStep, decision: Decision, *, later: int) -> str | None:
        """Runs a step; ``None`` where the client has its answer, else in a word why the next one is asked."""
        if step.judging is None:
            self._held.let_through()
        else:
            self._held.hold(most_bytes=step.max_held_bytes, serves_unsure=step.serves_unsure)
        if step.keep_alive_s is not None and self._loop.ctx.request.stream:
            self._held.keep_alive(step.keep_alive_s, self._clock.sleep)
        try:
            await self._failover(step, later).run(decision)
        except HeadraceError as error:
            if later == 0 or self._held.started or self._is_final(error):
                raise
            self._note_failure(step, error)
            return type(error).__name__
        if step.judging is None or not self._held.holding:
            return None
        return await self._judge(step, step.judging)

    def _failover(self, step: CascadeStep, later: int) -> Failover:
        """The loop over a step's targets, within its part of the attempts and of the time."""
        now_s = self._loop.limits.now_s()
        share_s = (self._deadline_s - now_s) / (later + 1) if step.timeout_s is None else step.timeout_s
        return replace(
            self._loop,
            route=step.route,
            exchange=self._held,
            deadline_s=min(self._deadline_s, now_s + share_s),
            made=len(self._journal.attempts),
        )

    async def _judge(self, step: CascadeStep, judging: Judging) -> str | None:
        """Has the held answer judged, and lets it go where it passes."""
        served = served_attempt(self._journal.attempts)
        if served is None:
            raise RuntimeError("an answer that is held comes from an attempt that ended well")
        began_unix_s = self._clock.unix_s()
        opinion = await self._docket.court.hear(
            judging,
            self._loop.ctx.request,
            self._held.kept.reader(self._held.operation, served[1].usage),
            within_s=max(self._deadline_s - self._loop.limits.now_s(), 0.0),
        )
        success = opinion.together.success
        passes = step.serves_unsure if success is None else success
        times = (began_unix_s, self._clock.unix_s())
        made = draft(self._journal, Occasion.CASCADE, *served)
        reason = "" if passes else _word(opinion)
        self._docket.record(with_opinion(made, opinion, times, escalated_for=reason))
        if reason:
            return reason
        await self._held.release_all()
        return None

    async def _decide_anew(self, step: CascadeStep) -> Decision:
        """A step decides on what is true when its turn comes."""
        candidates = self._loop.bench.fleet.snapshot(step.route, self._loop.ctx, self._loop.world.backends)
        if step.route.steer is None or self._loop.bench.steering is None:
            return decide_step(step, self._loop.ctx, candidates)
        return await self._loop.bench.steering.decide(step.route, self._loop.ctx, candidates)

    def _go_further(self, reason: str) -> None:
        """Tells the client why, in a header of the answer that it gets in the end."""
        self._reasons.append(reason)
        self._journal.outcome = None
        others = tuple(header for header in self._journal.headers if header[0] != ESCALATED)
        said = ", ".join(self._reasons).encode("ascii", "replace")
        self._journal.headers = (*others, (ESCALATED, said))

    def _note_hold(self, step: CascadeStep) -> None:
        """The client saw a held answer when it went out, and not when its first token came."""
        outcome = self._journal.outcome
        if step.judging is not None and outcome is not None:
            self._journal.outcome = replace(outcome, shown_s=self._held.shown_s)

    def _note_failure(self, step: CascadeStep, error: HeadraceError) -> None:
        """A step that gave no answer goes on the record of escalations, too: nobody can say that it was a bad one."""
        attempts = self._journal.attempts
        if not attempts or not step.asks(attempts[-1].backend, attempts[-1].model):
            return  # nobody was asked: the decision on the ledger says why
        made = draft(self._journal, Occasion.CASCADE, len(attempts), attempts[-1])
        now_unix_s = self._clock.unix_s()
        reason = type(error).__name__
        unheard = Opinion(cannot_say(f"no answer: {reason}"), ())
        self._docket.record(with_opinion(made, unheard, (now_unix_s, now_unix_s), escalated_for=reason))

    def _is_final(self, error: HeadraceError) -> bool:
        """Whether no other step would mend it: nobody listens, this process stops, or there is no time left."""
        return isinstance(error, ClientGone | ShuttingDown) or self._loop.limits.now_s() >= self._deadline_s


def _part(decision: Decision, step: CascadeStep) -> Decision:
    """What of a decision over all steps is about one of them."""
    order = tuple([bill for bill in decision.order if step.asks(bill.candidate.backend, bill.candidate.model)])
    excluded = [out for out in decision.excluded if step.asks(out.candidate.backend, out.candidate.model)]
    return replace(decision, order=order, excluded=tuple(excluded))


def _word(opinion: Opinion) -> str:
    """Who let the answer fall: a judge that failed it, or one that could not say."""
    speaker = opinion.speaker or "judge"
    return speaker if opinion.together.success is False else f"{speaker} unsure"
