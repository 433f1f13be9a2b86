"""Runs a check of your own: a program on this machine."""

from dataclasses import dataclass

from gateway.judgement import Answer, CommandInquiry, Judgement, Reply, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies.judge._told import Content, read_opinion, told

_PASSED, _FAILED = 0, 1


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Runs a check of your own, the one that your tests have: a program on this machine, without a shell.

    It reads ``{"request_id", "model", "answered_by", "finish_reasons", "choices", "request"}`` as JSON from its
    standard input, of which ``send`` names the words that it gets, and ends with 0 for passed, 1 for failed, anything
    else for "cannot say". What it prints may be ``{"score": 0.9, "reason": "a_word"}``; all else is ignored. Its
    environment has a ``PATH`` and no secret. A check in Python needs no program: ``use: acme.checks:Mine`` is a frozen
    dataclass with ``judge(request, answer)``.

    Attributes:
        command: the program and its arguments.
        send: ``answer``, ``request``, both or none of the words.
        timeout_s: seconds after which it is killed.
        max_reply_bytes: of what it prints.

    Example::

        judge: [{use: regression, command: [/opt/checks/answer.py, --strict], send: [answer, request]}]
    """

    command: tuple[str, ...]
    send: tuple[Content, ...] = ("answer", "request")
    timeout_s: float = 30.0
    max_reply_bytes: int = 65_536

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise ValueError("`command` must name a program")
        for name in ("timeout_s", "max_reply_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be more than zero")

    def judge(self, request: ChatRequest, answer: Answer) -> CommandInquiry:
        """See ``Judge.judge``."""
        return CommandInquiry(
            command=self.command,
            body=told(request, answer, self.send),
            timeout_s=self.timeout_s,
            max_reply_bytes=self.max_reply_bytes,
        )

    def conclude(self, reply: Reply) -> Judgement:
        """See ``InquiringJudge.conclude``."""
        if reply.code not in {_PASSED, _FAILED}:
            return cannot_say(f"it ends with {reply.code}")
        said = read_opinion(reply.body, passes_from=1.0)
        plain = passed() if reply.code == _PASSED else failed("it ends with 1")
        score = plain.score if said.score is None else said.score
        reason = said.reason if said.success is not None and said.reason else plain.reason
        return Judgement(success=plain.success, score=score, reason=reason)
