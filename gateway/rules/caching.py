"""The ``cache`` of a route, as the policy file has it and as it runs."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, Field

from gateway.caching.answers import Answers
from gateway.rules.tenant_specs import MODEL


class CacheSpec(BaseModel):
    """For how long answers are kept and given again, and to whom."""

    model_config = MODEL

    ttl_s: Annotated[float, Field(gt=0)]
    most_bytes: Annotated[int, Field(ge=65536)] = 67108864
    most_answer_bytes: Annotated[int, Field(ge=1024)] = 1048576
    across_tenants: bool = False
    sampled: bool = False


@dataclass(frozen=True, kw_only=True)
class Caching:
    """See ``CacheSpec``. It has its ``answers`` with it: where a reload changes its route, they are gone."""

    ttl_s: float
    most_bytes: int
    most_answer_bytes: int
    across_tenants: bool
    sampled: bool
    answers: Answers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", Answers(self.most_bytes))
