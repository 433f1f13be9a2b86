"""Who may call, and how much: the models of the policy file for tenants, teams, keys and limits."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

from gateway.limits.calendar import Period, read_period
from gateway.limits.limit import NANO, Measure
from gateway.rules.guard_specs import GuardSpecs
from gateway.rules.period_name import PeriodName
from gateway.task import TaskBudget, TaskRule

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Pattern = Annotated[str, Field(min_length=1, max_length=256)]
Amount = Annotated[int, Field(ge=0, le=2**52)]

MODEL = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _exactly(value: Any) -> Any:
    """The digits that were written, not their binary neighbour."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value) if type(value) is int else value


Usd = Annotated[Decimal, BeforeValidator(_exactly), Field(ge=0, le=9_000_000)]
"""Up to what billionths of a dollar can be counted exactly in 53 bits."""


class LimitSpec(BaseModel):
    """One limit: exactly one measure, and ``per`` for all but ``concurrent``.

    ``unpriced`` says of ``usd`` whether requests may go where no price is known, which counts nothing then.
    """

    model_config = MODEL

    requests: Amount | None = None
    input_tokens: Amount | None = None
    output_tokens: Amount | None = None
    tokens: Amount | None = None
    usd: Usd | None = None
    concurrent: Amount | None = None
    per: PeriodName | None = None
    unpriced: Literal["refuse", "allow"] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [measure for measure in Measure if getattr(self, measure.value) is not None]
        if len(given) != 1:
            raise ValueError(f"one limit has one of {', '.join(measure.value for measure in Measure)}")
        if (self.per is None) != (given[0] is Measure.CONCURRENT):
            raise ValueError("`per` says in which time, of all but `concurrent`, which holds at any time")
        if self.unpriced is not None and self.usd is None:
            raise ValueError("`unpriced` is for limits in `usd`")
        return self

    @property
    def measure(self) -> Measure:
        """What is limited."""
        return next(measure for measure in Measure if getattr(self, measure.value) is not None)

    @property
    def amount(self) -> int:
        """To how much, in the measure's unit; US dollars in ``NANO``."""
        amount = getattr(self, self.measure.value)
        return int(amount * NANO) if self.measure is Measure.USD else int(amount)

    @property
    def period(self) -> Period | None:
        """In which time."""
        return None if self.per is None else read_period(self.per)


Limits = list[LimitSpec]


class LimitsSpec(BaseModel):
    """Limits of more than one tenant: of teams, of models by the name that clients ask for, and of backends.

    ``time_zone`` is the place on whose calendar all limits of the file are counted.
    """

    model_config = MODEL

    time_zone: str = "UTC"
    teams: dict[Name, Limits] = {}
    models: dict[Pattern, Limits] = {}
    backends: dict[Name, Limits] = {}

    @field_validator("time_zone")
    @classmethod
    def _is_a_place(cls, name: str) -> str:
        read_zone(name)
        return name


class TaskSpec(BaseModel):
    """What a task may take over all its requests, and the route on which those beyond it go on, where there is one.

    ``seconds`` are those of inference, ``steps`` are requests.
    """

    model_config = MODEL

    usd: Usd | None = None
    tokens: Amount | None = None
    seconds: Annotated[float, Field(ge=0, le=2**40)] | None = None
    steps: Amount | None = None
    otherwise: Name | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.usd is None and self.tokens is None and self.seconds is None and self.steps is None:
            raise ValueError("a budget has at least one of usd, tokens, seconds, steps")
        return self

    @property
    def rule(self) -> TaskRule:
        """As it runs."""
        budget = TaskBudget(usd=self.usd, tokens=self.tokens, seconds=self.seconds, steps=self.steps)
        return TaskRule(budget=budget, otherwise=self.otherwise or "")


class KeySpec(BaseModel):
    """One key of a tenant, as the SHA-256 of it in hex; ``expires`` is when it opens no more, with an offset."""

    model_config = MODEL

    sha256: Digest
    expires: datetime | None = None
    limits: Limits = []

    @field_validator("expires", mode="before")
    @classmethod
    def _is_a_moment(cls, value: Any) -> Any:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, datetime) and moment.tzinfo is None:
            raise ValueError("a moment needs its offset from UTC: 2027-01-01T00:00:00Z")
        return moment


class TenantSpec(BaseModel):
    """Who may call. Keys are kept as the SHA-256 of the key, in hex, so that the file holds no secret."""

    model_config = MODEL

    keys_sha256: list[Digest] = []
    keys: dict[Name, KeySpec] = {}
    team: Name | None = None
    priority: Literal["interactive", "standard", "batch"] = "standard"
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    routes: list[Name] | None = None
    models: list[Pattern] | None = None
    limits: Limits = []
    task: TaskSpec | None = None
    guards: GuardSpecs = []

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if not self.keys_sha256 and not self.keys:
            raise ValueError("a tenant needs a key: `keys_sha256`, or `keys` by a name each")
        return self


def read_zone(name: str) -> ZoneInfo:
    """The place of that name, on whose calendar limits are counted.

    Raises:
        ValueError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"`{name}` is no time zone: write one like Europe/Berlin or UTC") from None
