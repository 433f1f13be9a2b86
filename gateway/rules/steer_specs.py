"""The policy file on success: what a route learns of it, explores, insists on and tries out."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from gateway.rules.period_name import PeriodName
from gateway.rules.tenant_specs import MODEL, Usd

Share = Annotated[float, Field(gt=0, le=1)]
Confidence = Annotated[float, Field(ge=0.5, lt=1)]


class SuccessSpec(BaseModel):
    """How long verdicts count, and how sure bounds are: 0.95 for one that is wrong once in twenty times."""

    model_config = MODEL

    half_life_s: Annotated[float, Field(gt=0)] = 7 * 86_400.0
    confidence: Confidence = 0.95


class ExploreSpec(BaseModel):
    """How many tasks try what may be better, and how much more than the best known choice that may cost."""

    model_config = MODEL

    usd: Usd
    per: PeriodName = "day"
    share: Share = 0.1


class CanarySpec(BaseModel):
    """A target that a share of the tasks try, until it is shown to be worse than the others."""

    model_config = MODEL

    to: Annotated[str, Field(min_length=1)]
    share: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    confidence: Confidence = 0.95
    when_better: Literal["report", "promote"] = "report"
    run: Annotated[int, Field(ge=1)] = 1
