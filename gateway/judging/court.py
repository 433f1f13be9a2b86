"""Hears the judges of an answer and puts together what they say.

Judges are pure, and none of them runs on the event loop: an answer may be long, a schema large, and a check of
somebody's own anything. They run on threads of their own, few, and nobody waits longer for them than ``PATIENCE_S``.
While judges of a route hang, they are not asked again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from gateway.judgement import Answer, CommandInquiry, HttpInquiry, InquiringJudge, Inquiry, Judge, Judgement, cannot_say
from gateway.judging.inquiries import Inquiries, Unanswered
from gateway.judging.threads import JudgeThreads
from gateway.rules.judging import Judging
from gateway.types import ChatRequest

PATIENCE_S = 10.0
_MOST_REASON_CHARACTERS = 200

ReadAnswer = Callable[[], Answer | None]


class Opinion(NamedTuple):
    """What all judges say together, and each of them by the name that the policy file has for it."""

    together: Judgement
    each: tuple[tuple[str, Judgement], ...]

    @property
    def speaker(self) -> str:
        """The judge whose word decided, or the first that could not say."""
        decisive = [name for name, one in self.each if one.success is self.together.success]
        return decisive[0] if decisive else ""


class Court:
    """Hears cases, any number at a time. ``inquiries`` asks those who are not in this process."""

    def __init__(self, inquiries: Inquiries) -> None:
        self._inquiries = inquiries
        self._threads = JudgeThreads()

    async def hear(
        self, judging: Judging, request: ChatRequest, read: ReadAnswer, *, within_s: float | None = None
    ) -> Opinion:
        """What the judges say of the answer that ``read`` gives, which is called on a thread.

        Those in this process have ``PATIENCE_S``, those who ask others have the time limit of their own, and all
        together ``within_s``, where it is given; who is late cannot say.
        """
        try:
            async with asyncio.timeout(within_s):
                return _together(judging, await self._asked(judging, await self._looks(judging, request, read)))
        except TimeoutError:
            return _together(judging, [_late(within_s or 0.0)] * len(judging.judges))

    async def close(self) -> None:
        """Gives back threads and connections; idempotent. What runs on a thread is left to come to its end."""
        self._threads.close()
        await self._inquiries.close()

    async def _looks(self, judging: Judging, request: ChatRequest, read: ReadAnswer) -> list[Judgement | Inquiry]:
        if self._threads.hangs(judging, longer_than_s=PATIENCE_S):
            return [cannot_say("an earlier answer is still looked at")] * len(judging.judges)
        job = self._threads.begin(judging, partial(_look, judging, request, read))
        try:
            return list(await asyncio.wait_for(asyncio.wrap_future(job.result), PATIENCE_S))
        except TimeoutError:
            return [_late(PATIENCE_S)] * len(judging.judges)
        finally:
            self._threads.leave(job)

    async def _asked(self, judging: Judging, said: Sequence[Judgement | Inquiry]) -> list[Judgement]:
        """The judgements, those who must ask others having asked, unless it is decided without them."""
        known = [one for one in said if isinstance(one, Judgement)]
        decided = any(one.success is not judging.every and one.success is not None for one in known)
        if decided:
            return [one if isinstance(one, Judgement) else cannot_say("not asked: it is decided") for one in said]
        judges = [judge for _, judge in judging.judges]
        return list(await asyncio.gather(*map(self._ask, judges, said)))

    async def _ask(self, judge: Judge, said: Judgement | Inquiry) -> Judgement:
        if isinstance(said, Judgement):
            return said
        try:
            reply = await self._inquiries.ask(said)
        except Unanswered as error:
            return cannot_say(str(error))
        if not isinstance(judge, InquiringJudge):
            return cannot_say("it asks, and cannot conclude")
        try:
            return _checked(judge.conclude(reply))
        except Exception as error:  # noqa: BLE001  # somebody's own judge may raise anything
            return cannot_say(f"it raised {type(error).__name__}")


def _late(within_s: float) -> Judgement:
    return cannot_say(f"not judged within {within_s:.3g} s")


def _look(judging: Judging, request: ChatRequest, read: ReadAnswer) -> list[Judgement | Inquiry]:
    """On a thread: reads the answer, and lets each judge look at it."""
    answer = read()
    if answer is None:
        return [cannot_say("the answer cannot be read")] * len(judging.judges)
    return [_say(judge, request, answer) for _, judge in judging.judges]


def _say(judge: Judge, request: ChatRequest, answer: Answer) -> Judgement | Inquiry:
    try:
        said = judge.judge(request, answer)
    except BaseException as error:  # noqa: BLE001  # a panic of a library in Rust, or an exit of somebody's own judge
        return cannot_say(f"it raised {type(error).__name__}")
    return said if isinstance(said, HttpInquiry | CommandInquiry) else _checked(said)


def _checked(said: object) -> Judgement:
    """As it may be kept: somebody's own judge may say too much, or something else."""
    if not isinstance(said, Judgement):
        return cannot_say(f"it answers with a {type(said).__name__}")
    if len(said.reason) <= _MOST_REASON_CHARACTERS:
        return said
    return Judgement(success=said.success, score=said.score, reason=said.reason[:_MOST_REASON_CHARACTERS])


def _together(judging: Judging, said: Sequence[Judgement]) -> Opinion:
    """``every``: a failure decides, then a pass; else a pass decides, then a failure. Who cannot say does not count."""
    names = [name for name, _ in judging.judges]
    decisive = not judging.every
    order = (decisive, judging.every, None)
    success = next(wanted for wanted in order if wanted is None or any(one.success is wanted for one in said))
    agreeing = [(name, one) for name, one in zip(names, said, strict=True) if one.success is success]
    scores = [one.score for _, one in agreeing if one.score is not None]
    score = None if success is None or not scores else (min if judging.every else max)(scores)
    reason = next((f"{name}: {one.reason}" for name, one in agreeing if one.reason), "")
    return Opinion(Judgement(success=success, score=score, reason=reason), tuple(zip(names, said, strict=True)))
