"""The policy file on judges: who judges a route's answers, its cascade, and its shadow."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from gateway.rules.period_name import PeriodName
from gateway.rules.tenant_specs import MODEL, Usd

Step = str | dict[str, Any]
TargetName = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]

MOST_HELD_BYTES = 256 * 1024


class JudgesSpec(BaseModel):
    """Judges that must ``all`` pass an answer, or of whom ``any`` must."""

    model_config = MODEL

    all: Annotated[list[Step], Field(min_length=1)] | None = None
    any: Annotated[list[Step], Field(min_length=1)] | None = None


def as_mapping(given: Any) -> Any:
    """A list of judges is one of judges that must all pass."""
    return {"all": given} if isinstance(given, list) else given


Judges = Annotated[JudgesSpec, BeforeValidator(as_mapping)]


class JudgeSpec(JudgesSpec):
    """The judges of a route, and the share of its requests whose answers they judge."""

    sample: Share = 1.0


class CascadeStepSpec(BaseModel):
    """One step of a cascade: who is asked, and who judges the answer before the client sees it."""

    model_config = MODEL

    targets: Annotated[list[TargetName], Field(min_length=1)]
    judge: Judges | None = None
    when_unsure: Literal["escalate", "serve"] = "escalate"
    timeout_s: Seconds | None = None
    keep_alive_s: Seconds | None = None
    max_held_bytes: Annotated[int, Field(gt=0, le=16 * 1024 * 1024)] = MOST_HELD_BYTES


class ShadowSpec(BaseModel):
    """Another backend that gets a copy of a share of the requests; its answers are judged and shown to nobody."""

    model_config = MODEL

    to: TargetName
    share: Share
    usd: Usd
    per: PeriodName = "day"
    judge: Judges | None = None
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    most_load: Annotated[float, Field(gt=0)] = 1.0
