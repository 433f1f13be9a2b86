"""Hears guards: within their time, their bytes and their number, and whatever they do there is an outcome."""

import asyncio
import logging
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from gateway.guard import ALLOWED, CannotSay, Guard, InquiringGuard, Seen, Verdict
from gateway.guard_mark import Action, GuardMark
from gateway.judgement import HttpInquiry
from gateway.judging.inquiries import Inquiries, Unanswered
from gateway.judging.threads import JudgeThreads
from gateway.rules.guards import GuardRule
from gateway.seldom import Seldom

_log = logging.getLogger(__name__)

_LONG_BYTES, _MANY_TEXTS = 32 * 1024, 2000
"""From here on a look takes so long that others should be served meanwhile."""

Heard = tuple[Verdict, GuardMark]


class Guardroom:
    """For all routes. ``inquiries`` asks those who are not in this process."""

    def __init__(self, inquiries: Inquiries) -> None:
        self._inquiries = inquiries
        self._threads = JudgeThreads()
        self._complain = Seldom(_log)

    async def hear(self, rule: GuardRule, seen: Seen, *, why_not: str = "") -> Heard:
        """What the guard says, or what the policy file has for one that cannot say.

        ``why_not`` tells that there is something in the request that nobody can look at.
        """
        began_s = perf_counter()
        try:
            async with asyncio.timeout(rule.timeout_s):
                verdict = _checked(rule, seen, await self._ask(rule, seen, why_not))
        except Exception as error:  # noqa: BLE001  # somebody's own guard may raise anything
            self.complain(rule, error)
            return _failed(rule, perf_counter() - began_s)
        mark = GuardMark(
            guard=rule.name,
            stage=rule.stage,
            action=verdict.action,
            annotations=rule.allowed(verdict.annotations),
            took_s=perf_counter() - began_s,
        )
        return verdict, mark

    def complain(self, rule: GuardRule, error: BaseException) -> None:
        """Tells the operator, now and then, that a guard cannot look; in words that quote nobody."""
        words = str(error) if isinstance(error, CannotSay | Unanswered) else type(error).__name__
        self._complain("the guard %s could not look: %s", rule.name, words)

    async def close(self) -> None:
        """Gives back threads and connections; idempotent."""
        self._threads.close()
        await self._inquiries.close()

    async def _ask(self, rule: GuardRule, seen: Seen, why_not: str) -> Verdict:
        if why_not:
            raise CannotSay(why_not)
        said = await self._look(rule, seen)
        if isinstance(said, Verdict):
            return said
        if not isinstance(rule.guard, InquiringGuard):
            raise CannotSay("it asks, and cannot conclude")
        async with rule.places:
            reply = await self._inquiries.ask(replace(said, timeout_s=rule.timeout_s))
        return rule.guard.conclude(seen, reply)

    async def _look(self, rule: GuardRule, seen: Seen) -> Verdict | HttpInquiry:
        length_bytes = sum(len(text.text.encode("utf-8", "surrogatepass")) for text in seen.texts)
        if length_bytes > rule.most_bytes:
            raise CannotSay(f"more than {rule.most_bytes} bytes")
        if length_bytes <= _LONG_BYTES and len(seen.texts) <= _MANY_TEXTS:
            return _looked(rule.guard, seen)
        if self._threads.hangs(rule, longer_than_s=rule.timeout_s):
            raise CannotSay("an earlier text is still looked at")
        job = self._threads.begin(rule, partial(_looked, rule.guard, seen))
        try:
            said: Verdict | HttpInquiry = await asyncio.wrap_future(job.result)
        finally:
            self._threads.leave(job)
        return said


def _looked(guard: Guard, seen: Seen) -> Verdict | HttpInquiry:
    try:
        return guard.look(seen)
    except Exception:
        raise
    except BaseException as error:  # noqa: BLE001  # a panic of a library in Rust, or an exit of somebody's own guard
        raise CannotSay(f"it raised {type(error).__name__}") from None


def _failed(rule: GuardRule, took_s: float) -> Heard:
    """What the policy file has for a guard that could not say."""
    verdict = Verdict(action=Action.BLOCK) if rule.refuses else ALLOWED
    return verdict, GuardMark(guard=rule.name, stage=rule.stage, action=verdict.action, failed=True, took_s=took_s)


def _checked(rule: GuardRule, seen: Seen, verdict: Verdict) -> Verdict:
    """As it can be carried out.

    Raises:
        CannotSay: it is none, or not among what this guard may say.
    """
    if not isinstance(verdict, Verdict):
        raise CannotSay(f"it answers with a {type(verdict).__name__}")
    if verdict.action is not Action.ALLOW and verdict.action not in rule.guard.actions:
        raise CannotSay("it says what it may not")
    if verdict.action is Action.REDACT and len(verdict.texts) != len(seen.texts):
        raise CannotSay("it answers with other texts than it was shown")
    return verdict
