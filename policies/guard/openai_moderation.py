"""Asks a moderation endpoint of OpenAI's form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gateway.guard import ALLOWED, CannotSay, Seen, Verdict
from gateway.guard_mark import Action, Stage
from gateway.judgement import HttpInquiry, Reply
from policies.guard._service import HeaderValue, answered, check_service, inquiry


@dataclass(frozen=True, kw_only=True)
class OpenaiModeration:
    """Asks a moderation endpoint of OpenAI's form: OpenAI's own, or another that answers as it does.

    It gets all texts at once. A hit is a text that it has ``flagged``, or one with a score of at least what
    ``thresholds`` says for the category; where there are thresholds, they alone count. The annotation ``value`` is the
    category with the highest score among those that were hit.

    Attributes:
        action: ``block`` or ``annotate``.
        url: with ``https``, unless the service is on this machine or ``plain_http`` allows it.
        model: the moderation model.
        thresholds: categories and the scores from which on they are hits, 0 to 1.
        api_key_env: the environment variable with its key, sent as ``Authorization: Bearer``.
        headers: further headers; for a secret ``{env: NAME}`` in place of the value.
        max_reply_bytes: of its reply.
        plain_http: whether others on the way may read what is sent.

    Example::

        guards:
          - when: before
            use: openai_moderation
            action: block
            thresholds: {violence: 0.8, self-harm: 0.4}
            timeout_s: 2
            on_error: allow
    """

    action: Literal["block", "annotate"]
    url: str = "https://api.openai.com/v1/moderations"
    model: str = "omni-moderation-latest"
    thresholds: Mapping[str, float] = field(default_factory=dict)
    api_key_env: str = "OPENAI_API_KEY"
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    max_reply_bytes: int = 4_194_304
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
        if any(not 0 < score <= 1 for score in self.thresholds.values()):
            raise ValueError("`thresholds` must be more than 0 and at most 1")

    @property
    def actions(self) -> tuple[Action, ...]:
        """See ``Guard``."""
        return (Action(self.action),)

    def look(self, seen: Seen) -> Verdict | HttpInquiry:
        """See ``Guard.look``."""
        texts = [text.text for text in seen.texts if text.text.strip()]
        if not texts:
            return ALLOWED
        return inquiry(
            self.url,
            {"model": self.model, "input": texts},
            headers=self.headers,
            api_key_env=self.api_key_env,
            max_reply_bytes=self.max_reply_bytes,
        )

    def conclude(self, seen: Seen, reply: Reply) -> Verdict:
        """See ``InquiringGuard.conclude``."""
        results = answered(reply).get("results")
        asked = sum(1 for text in seen.texts if text.text.strip())
        if not isinstance(results, list) or len(results) != asked:
            raise CannotSay("it answers with other results than it was asked for")
        hits = [hit for result in results if (hit := self._hit(result)) is not None]
        if not hits:
            return ALLOWED
        _, category = max(hits)
        return Verdict(
            action=Action(self.action),
            annotations=(("value", category),) if category else (),
            reason=category,
        )

    def _hit(self, result: Any) -> tuple[float, str] | None:
        """The score and the name of the category that a text is a hit for; ``None`` where it is none."""
        if not isinstance(result, dict) or not isinstance(result.get("flagged"), bool):
            raise CannotSay("it answers with what is no result")
        scores, flags = result.get("category_scores"), result.get("categories")
        known = {
            name: float(score)
            for name, score in (scores.items() if isinstance(scores, dict) else ())
            if isinstance(score, int | float) and not isinstance(score, bool)
        }
        if self.thresholds:
            if missing := self.thresholds.keys() - known.keys():
                raise CannotSay(f"it has no score for {min(missing)}")
            over = [(known[name], name) for name, least in self.thresholds.items() if known[name] >= least]
            return max(over, default=None)
        if not result["flagged"]:
            return None
        flagged = [name for name, flag in flags.items() if flag is True] if isinstance(flags, dict) else []
        return max(((known.get(name, 0.0), name) for name in flagged), default=(0.0, ""))
