"""One request before its guards: who of them is heard, in the order of the policy file, and on what."""

from collections.abc import Callable, Sequence
from functools import cache, partial

from gateway.errors import GuardBlocked, GuardSilent
from gateway.guard import CREDENTIALS, Seen, Text, no_answer
from gateway.guard_mark import WORD, Action, GuardMark, Stage
from gateway.guarding.guardroom import Guardroom
from gateway.judgement import Answer
from gateway.rules.guards import GuardRule
from gateway.types import ChatRequest
from gateway.wire.answers import read_answer

_HIDDEN = frozenset(name.encode() for name in CREDENTIALS)


class Hearing:
    """``marks`` are what the guards have done so far, in the order in which they did it.

    Args:
        room: where they are heard.
        request: what they look at, or whose answer.
        headers: the client's.
    """

    __slots__ = ("_headers", "_room", "marks", "request")

    def __init__(self, room: Guardroom, request: ChatRequest, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.marks: list[GuardMark] = []
        self.request = request
        self._room = room
        self._headers = headers

    async def on_request(self, rule: GuardRule, texts: Sequence[Text], *, why_not: str) -> tuple[str, ...] | None:
        """What the texts of the request should be; ``None`` where they may stay.

        Raises:
            GuardBlocked: it must not pass.
            GuardSilent: nobody could look, and somebody has to.
        """
        return await self._hear(rule, self._seen(Stage.BEFORE, texts), why_not=why_not)

    async def on_answer(
        self, rule: GuardRule, texts: Sequence[Text], data: bytes, *, streamed: bool
    ) -> tuple[str, ...] | None:
        """Likewise of an answer that ``data`` is, a body or the events of a stream."""
        answer = cache(partial(read_answer, self.request.arrival.operation, data, streamed=streamed))
        return await self._hear(rule, self._seen(Stage.AFTER, texts, answer))

    def unheard(self, rule: GuardRule, why: Exception) -> None:
        """A guard cannot look.

        Raises:
            GuardSilent: it has to.
        """
        self._room.complain(rule, why)
        mark = GuardMark(
            guard=rule.name, stage=rule.stage, action=Action.BLOCK if rule.refuses else Action.ALLOW, failed=True
        )
        self.marks.append(mark)
        if rule.refuses:
            raise refusal(rule, mark)

    def _seen(self, stage: Stage, texts: Sequence[Text], answer: Callable[[], Answer | None] = no_answer) -> Seen:
        headers = [header for header in self._headers if header[0] not in _HIDDEN]
        return Seen(stage=stage, request=self.request, texts=texts, answer=answer, headers=headers)

    async def _hear(self, rule: GuardRule, seen: Seen, *, why_not: str = "") -> tuple[str, ...] | None:
        verdict, mark = await self._room.hear(rule, seen, why_not=why_not)
        self.marks.append(mark)
        if verdict.action is Action.BLOCK:
            raise refusal(rule, mark, verdict.reason, why_not=why_not)
        return verdict.texts if verdict.action is Action.REDACT else None


def refusal(rule: GuardRule, mark: GuardMark, reason: str = "", *, why_not: str = "") -> GuardBlocked | GuardSilent:
    """What the client is told of what does not pass; ``why_not`` is what about it nobody can look at."""
    if why_not:
        return GuardBlocked(f"the guard `{rule.name}` lets nothing pass that it cannot look at: {why_not}")
    if mark.failed:
        return GuardSilent(f"the guard `{rule.name}` could not look at this, and nothing passes without it")
    what = "the request" if rule.stage is Stage.BEFORE else "the answer"
    because = f" ({reason})" if WORD.match(reason) else ""
    return GuardBlocked(f"the guard `{rule.name}` does not let {what} pass{because}")
