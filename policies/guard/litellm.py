"""Asks a service that speaks LiteLLM's generic guardrail API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gateway.guard import ALLOWED, CannotSay, Seen, Verdict
from gateway.guard_mark import Action, Stage
from gateway.judgement import HttpInquiry, Reply
from policies.guard._service import HeaderValue, answered, check_service, inquiry

_PATH = "/beta/litellm_basic_guardrail_api"


@dataclass(frozen=True, kw_only=True)
class Litellm:
    """Asks a service that speaks LiteLLM's generic guardrail API (https://docs.litellm.ai, "Generic Guardrail API").

    It gets ``texts``, ``input_type`` (``request`` or ``response``), ``litellm_call_id`` (the request's id) and
    ``model``. ``NONE`` lets it pass, ``BLOCKED`` does not, and ``GUARDRAIL_INTERVENED`` comes with the texts as they
    should be. Its ``blocked_reason`` is told to nobody: it may quote what it was shown.

    Attributes:
        url: the service's base address, to which ``/beta/litellm_basic_guardrail_api`` is added.
        api_key_env: the environment variable with its key, sent as ``x-api-key``.
        headers: further headers; for a secret ``{env: NAME}`` in place of the value.
        max_reply_bytes: of its reply.
        plain_http: whether others on the way may read what is sent.

    Example::

        guards:
          - {when: before, use: litellm, url: "https://guard.example.com", api_key_env: GUARD_KEY, on_error: refuse}
    """

    url: str
    api_key_env: str = ""
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    max_reply_bytes: int = 1_048_576
    plain_http: bool = False
    stages: ClassVar[frozenset[Stage]] = frozenset(Stage)
    actions: ClassVar[tuple[Action, ...]] = (Action.BLOCK, Action.REDACT)

    def __post_init__(self) -> None:
        check_service(
            self.url,
            self.headers,
            api_key_env=self.api_key_env,
            plain_http=self.plain_http,
            max_reply_bytes=self.max_reply_bytes,
        )

    def look(self, seen: Seen) -> HttpInquiry:
        """See ``Guard.look``."""
        question: dict[str, Any] = {
            "texts": [text.text for text in seen.texts],
            "input_type": "request" if seen.stage is Stage.BEFORE else "response",
            "litellm_call_id": seen.request.arrival.id,
            "model": seen.request.model,
            "request_data": {},
        }
        key: Mapping[str, HeaderValue] = {"x-api-key": {"env": self.api_key_env}} if self.api_key_env else {}
        return inquiry(
            self.url.rstrip("/").removesuffix(_PATH) + _PATH,
            question,
            headers={**self.headers, **key},
            api_key_env="",
            max_reply_bytes=self.max_reply_bytes,
        )

    def conclude(self, seen: Seen, reply: Reply) -> Verdict:  # noqa: ARG002  # the port's signature
        """See ``InquiringGuard.conclude``."""
        said = answered(reply)
        match said.get("action"):
            case "NONE":
                return ALLOWED
            case "BLOCKED":
                return Verdict(action=Action.BLOCK)
            case "GUARDRAIL_INTERVENED":
                texts = said.get("texts")
                if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                    raise CannotSay("it answers with what are no texts")
                return Verdict(action=Action.REDACT, texts=tuple(texts))
        raise CannotSay("it says no action that there is")
