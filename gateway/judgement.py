"""What judges see of an answer, what they say of it, and their doors.

A judge is pure: it looks at a request and its whole answer. Where only somebody else can tell (a service, a program),
it answers what is to be asked of whom, and the kernel asks: with limits of time and bytes, off the request's path.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from gateway.conversation import ToolCall
from gateway.forecast import RequestKind
from gateway.price import Usage
from gateway.types import ChatRequest, TraceContext


class Choice(Struct, frozen=True, kw_only=True, gc=False):
    """One of an answer's choices, whatever format it came in. ``finish_reason`` is in OpenAI's words."""

    text: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """A whole answer as judges see it: ``n`` choices, and what the upstream says it counted."""

    choices: tuple[Choice, ...]
    usage: Usage | None = None
    model: str = ""


class Judgement(Struct, frozen=True, kw_only=True, gc=False):
    """What one judge says. ``success`` is ``None`` where it cannot say; ``score`` is 0 to 1, where it has one.

    ``reason`` is for people and quotes nothing of what either side wrote: it goes on the ledger.
    """

    success: bool | None
    score: float | None = None
    reason: str = ""


def passed(reason: str = "") -> Judgement:
    """A success without reserve."""
    return Judgement(success=True, score=1.0, reason=reason)


def failed(reason: str) -> Judgement:
    """A failure without reserve."""
    return Judgement(success=False, score=0.0, reason=reason)


def cannot_say(reason: str) -> Judgement:
    """No judgement, and why."""
    return Judgement(success=None, reason=reason)


def in_a_word(judgement: Judgement) -> str:
    """``passed``, ``failed`` or ``unsure``."""
    return {True: "passed", False: "failed", None: "unsure"}[judgement.success]


class HttpInquiry(Struct, frozen=True, kw_only=True, gc=False):
    """A question for a service: ``body`` (JSON) is posted to ``url``, and a redirect is not followed.

    ``api_key_env`` is the environment variable whose value is sent as ``Authorization: Bearer``, or empty. Of further
    ``headers`` each has a name, and a value or, for ``secret_headers``, the environment variable that holds it.
    """

    url: str
    body: bytes
    timeout_s: float
    max_reply_bytes: int
    api_key_env: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    secret_headers: tuple[tuple[str, str], ...] = ()


class CommandInquiry(Struct, frozen=True, kw_only=True, gc=False):
    """A question for a program: ``body`` (JSON) on its standard input, no shell, and an environment without secrets."""

    command: tuple[str, ...]
    body: bytes
    timeout_s: float
    max_reply_bytes: int


Inquiry = HttpInquiry | CommandInquiry


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """What came back: a service's HTTP status or a program's exit code, and its words."""

    code: int
    body: bytes


class Judge(Protocol):
    """Says whether an answer was a success."""

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement | Inquiry:
        """Its judgement, or what must be asked first. Never raises, whatever the answer holds."""
        ...


@runtime_checkable
class InquiringJudge(Protocol):
    """A judge that asks somebody else."""

    def conclude(self, reply: Reply) -> Judgement:
        """What the reply means. Never raises, whatever it holds."""
        ...


class Occasion(StrEnum):
    """Why an answer was judged. A metric label."""

    SERVED = "served"
    CASCADE = "cascade"
    SHADOW = "shadow"


class JudgedAnswer(Struct, frozen=True, kw_only=True, gc=False):
    """An answer and what was said of it, once for each time that it was judged: for ledger, metrics and spans.

    ``attempt`` is its place among the request's attempts, from one; zero for a shadow, which is none of them and whose
    ``cost_usd`` is in no request's cost. ``judgement`` is that of all judges together, ``judgements`` are theirs one by
    one, by the names that the policy file has for them. An answer of a cascade that its client never saw was
    ``escalated_for`` a reason, in a word: the judge that let it fall, or the error. ``answer_s`` is how long it took to
    come. Moments are seconds since the epoch: when the request was received, when judging began and ended.
    """

    request_id: str
    tenant: str
    task: str
    route: str
    backend: str
    model: str
    occasion: Occasion
    judgement: Judgement
    attempt: int = 0
    judgements: tuple[tuple[str, Judgement], ...] = ()
    kind: RequestKind | None = None
    escalated_for: str = ""
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    answer_s: float = 0.0
    received_unix_s: float = 0.0
    started_unix_s: float = 0.0
    ended_unix_s: float = 0.0
    trace: TraceContext | None = None
