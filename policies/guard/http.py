"""Asks a service of yours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gateway.guard import CannotSay, Seen, Verdict
from gateway.guard_mark import Action, Stage
from gateway.judgement import HttpInquiry, Reply
from policies.guard._service import HeaderValue, answered, check_service, inquiry

_Told = Literal["block", "redact", "annotate"]
_EVERY: tuple[_Told, ...] = ("block", "redact", "annotate")


@dataclass(frozen=True, kw_only=True)
class Http:
    """Asks a service of yours, which says what is to be done.

    It gets ``{"stage", "request_id", "tenant", "model", "operation", "stream", "texts"}``, each text with ``text``,
    ``kind`` (``text``, ``refusal``, ``reasoning`` or ``arguments``) and ``role``; after the answer also
    ``finish_reasons``, ``tool_calls`` (their names), ``prompt_tokens`` and ``output_tokens``. What people wrote leaves
    this machine.

    It answers with status 200 and ``{"action": "allow"}``, or ``block``, ``redact`` or ``annotate``. With ``redact``
    comes ``"texts"``: as many as it was given, each the text as it should be, or ``null`` where it may stay. With any
    comes, if it likes, ``"annotations": {"risk": "high"}``, and with ``block`` a ``"reason"`` for the client: all of
    these in one word each. Everything else, a redirect and silence mean that it cannot say.

    Attributes:
        url: with ``https``, unless the service is on this machine or ``plain_http`` allows it.
        actions_allowed: what it may say; anything else counts as if it could not say.
        api_key_env: the environment variable with its key, sent as ``Authorization: Bearer``.
        headers: further headers; for a secret ``{env: NAME}`` in place of the value.
        max_reply_bytes: of its reply.
        plain_http: whether others on the way may read what is sent.

    Example::

        guards:
          - when: before
            use: http
            url: https://guard.example.com/v1/check
            headers: {x-guard-key: {env: GUARD_KEY}}
            annotations: [risk]
            timeout_s: 0.5
            on_error: refuse
    """

    url: str
    actions_allowed: tuple[_Told, ...] = _EVERY
    api_key_env: str = ""
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    max_reply_bytes: int = 1_048_576
    plain_http: bool = False
    stages: ClassVar[frozenset[Stage]] = frozenset(Stage)

    def __post_init__(self) -> None:
        check_service(
            self.url,
            self.headers,
            api_key_env=self.api_key_env,
            plain_http=self.plain_http,
            max_reply_bytes=self.max_reply_bytes,
        )
        if not self.actions_allowed:
            raise ValueError("`actions_allowed` must not be empty")

    @property
    def actions(self) -> tuple[Action, ...]:
        """See ``Guard``."""
        return tuple(Action(name) for name in self.actions_allowed)

    def look(self, seen: Seen) -> HttpInquiry:
        """See ``Guard.look``."""
        return inquiry(
            self.url,
            _question(seen),
            headers=self.headers,
            api_key_env=self.api_key_env,
            max_reply_bytes=self.max_reply_bytes,
        )

    def conclude(self, seen: Seen, reply: Reply) -> Verdict:
        """See ``InquiringGuard.conclude``."""
        said = answered(reply)
        try:
            action = Action(str(said.get("action")))
        except ValueError:
            raise CannotSay("it says no action that there is") from None
        annotations, reason = said.get("annotations"), said.get("reason")
        told = annotations.items() if isinstance(annotations, dict) else ()
        return Verdict(
            action=action,
            texts=_texts(seen, said.get("texts")) if action is Action.REDACT else (),
            annotations=tuple((name, _word(value)) for name, value in told),
            reason=reason if isinstance(reason, str) else "",
        )


def _question(seen: Seen) -> dict[str, Any]:
    request, answer = seen.request, seen.answer()
    question: dict[str, Any] = {
        "stage": seen.stage.value,
        "request_id": request.arrival.id,
        "tenant": request.arrival.tenant,
        "model": request.model,
        "operation": request.arrival.operation.value,
        "stream": request.stream,
        "texts": [text._asdict() for text in seen.texts],
    }
    if answer is not None:
        calls = [call for choice in answer.choices for call in choice.tool_calls]
        question["finish_reasons"] = [choice.finish_reason for choice in answer.choices]
        question["tool_calls"] = [call.function.name for call in calls if call.function is not None]
        question["prompt_tokens"] = answer.usage.prompt_tokens if answer.usage is not None else None
        question["output_tokens"] = answer.usage.output_tokens if answer.usage is not None else None
    return question


def _texts(seen: Seen, said: Any) -> tuple[str, ...]:
    """All texts as they should be.

    Raises:
        CannotSay: these are others than it was shown.
    """
    if not isinstance(said, list) or len(said) != len(seen.texts):
        raise CannotSay("it answers with other texts than it was shown")
    if any(new is not None and not isinstance(new, str) for new in said):
        raise CannotSay("it answers with what is no text")
    return tuple(old.text if new is None else new for old, new in zip(seen.texts, said, strict=True))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, int | float) else ""
