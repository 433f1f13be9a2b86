"""What a judge outside is told, as JSON, and how its answer is read."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from gateway.judgement import Answer, Judgement, cannot_say
from gateway.types import ChatRequest
from policies.judge._choices import plain

Content = Literal["answer", "request"]
"""What goes to a judge outside: the answer's text and calls, the client's own body."""

_CODE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}\Z")
_FIELDS = msgspec.json.Decoder(dict[str, Any])


def told(request: ChatRequest, answer: Answer, send: Sequence[Content]) -> bytes:
    """The question: always the id, the model and how each choice ended; of the words only what ``send`` names."""
    question: dict[str, Any] = {
        "request_id": request.arrival.id,
        "model": request.model,
        "answered_by": answer.model,
        "finish_reasons": [choice.finish_reason for choice in answer.choices],
    }
    if "answer" in send:
        question["choices"] = [plain(choice) for choice in answer.choices]
    if "request" in send:
        question["request"] = request.raw
    return msgspec.json.encode(question)


def read_opinion(body: bytes, *, passes_from: float) -> Judgement:
    """A judgement out of ``{"success": true, "score": 0.9, "reason": "a_word"}``; ``success`` or ``score`` suffices.

    A reason is kept where it is a code of one word: anything longer may quote what it was shown.
    """
    try:
        said = _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return cannot_say("its reply is no JSON object")
    success, score, reason = said.get("success"), said.get("score"), said.get("reason")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        score = None
    if not isinstance(success, bool):
        success = None if score is None or "success" in said else score >= passes_from
    code = reason if isinstance(reason, str) and _CODE.match(reason) else ""
    if success is None:
        return cannot_say(code or "it does not say")
    return Judgement(success=success, score=None if score is None else float(score), reason=code)
