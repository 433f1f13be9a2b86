"""The ``guards`` of a route or a tenant, as the policy file has them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

StreamMode = Literal["hold", "window", "pass"]
_Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,31}$")]


class GuardSpec(BaseModel):
    """One guard: when it looks, which one it is, and what happens where it cannot say. ``use`` has its parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    use: dict[str, Any]
    when: Literal["before", "after"]
    on_error: Literal["allow", "refuse"]
    name: _Word | None = None
    timeout_s: Annotated[float, Field(gt=0, le=30)] = 1.0
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 32
    most_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1048576
    stream: StreamMode = "hold"
    annotations: list[_Word] = []


def split(given: Any) -> Any:
    """A guard's own parameters apart from what is the same for all guards: they are written side by side."""
    if not isinstance(given, Mapping):
        return {"use": {"use": given}} if isinstance(given, str) else given
    common = {name: value for name, value in given.items() if name in GuardSpec.model_fields and name != "use"}
    own = {name: value for name, value in given.items() if name not in GuardSpec.model_fields}
    return {**common, "use": {"use": given["use"], **own}} if "use" in given else {**common, **own}


GuardSpecs = list[Annotated[GuardSpec, BeforeValidator(split)]]
