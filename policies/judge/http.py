"""Asks a service of yours."""

from dataclasses import dataclass

from gateway.judgement import Answer, HttpInquiry, Judgement, Reply, cannot_say
from gateway.types import ChatRequest
from policies._service_address import check_address
from policies.judge._told import Content, read_opinion, told

_OK = 200


@dataclass(frozen=True, kw_only=True)
class Http:
    """Asks a service of yours, after the answer: what people wrote leaves this machine only because ``send`` says so.

    It gets ``{"request_id", "model", "answered_by", "finish_reasons"}``, and what ``send`` names: ``choices`` (each
    with ``text``, ``refusal``, ``finish_reason`` and ``tool_calls``) for ``answer``, the client's body as ``request``
    for ``request``. It answers ``{"success": true, "score": 0.9, "reason": "a_word"}``, of which ``success`` or
    ``score`` is enough; a reason is kept where it is one word. Another status, a redirect, silence and anything else
    mean that it cannot say.

    Attributes:
        url: with ``https``, unless the service is on this machine or ``plain_http`` allows it.
        send: ``answer``, ``request``, both or, as ``[]``, none of the words. Must be given.
        api_key_env: the environment variable with its key, sent as ``Authorization: Bearer`` to ``url`` alone.
        passes_from: the score from which on an answer passes that comes without ``success``.
        timeout_s: seconds for the whole of it.
        max_reply_bytes: of its reply.
        plain_http: whether others on the way may read what is sent.

    Example::

        judge:
          - use: http
            url: https://judge.example.com/v1/verdict
            send: [answer]
            api_key_env: JUDGE_KEY
            timeout_s: 5
    """

    url: str
    send: tuple[Content, ...]
    api_key_env: str = ""
    passes_from: float = 0.5
    timeout_s: float = 10.0
    max_reply_bytes: int = 65_536
    plain_http: bool = False

    def __post_init__(self) -> None:
        check_address(self.url, plain_http=self.plain_http, example="https://judge.example.com/v1/verdict")
        if not 0 < self.passes_from <= 1:
            raise ValueError("`passes_from` must be more than 0 and at most 1")
        for name in ("timeout_s", "max_reply_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be more than zero")

    def judge(self, request: ChatRequest, answer: Answer) -> HttpInquiry:
        """See ``Judge.judge``."""
        return HttpInquiry(
            url=self.url,
            body=told(request, answer, self.send),
            timeout_s=self.timeout_s,
            max_reply_bytes=self.max_reply_bytes,
            api_key_env=self.api_key_env,
        )

    def conclude(self, reply: Reply) -> Judgement:
        """See ``InquiringJudge.conclude``."""
        if reply.code != _OK:
            return cannot_say(f"it answers with status {reply.code}")
        return read_opinion(reply.body, passes_from=self.passes_from)
