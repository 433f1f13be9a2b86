"""What stands in YAML -> what a dataclass's constructor takes, checked, or an error that says where and what.

Strict: a number in quotes is no number, an unknown name is an error and never ignored, at any depth. A ``Decimal`` gets
the digits that were written. Only ranges are left to the dataclass's own ``__post_init__``.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pydantic

from gateway.errors import ConfigurationError

# pydantic's names for an unknown parameter, at the top and below.
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def parameters(cls: type) -> list[Field[Any]]:
    """The fields that YAML may set: those that the constructor takes."""
    return [field for field in fields(cls) if field.init]


def convert(cls: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The constructor's arguments for ``cls``; parameters that were not given are absent and take their default.

    Args:
        cls: a dataclass, whose field types may be dataclasses, mappings and sequences of them in turn.
        given: parsed YAML.
        where: the path of ``given`` in its file, for the error.

    Raises:
        ConfigurationError: with the path of the first fault.
    """
    try:
        # As JSON, where strict means "no number from text", and yet a list may become a tuple and text a path.
        checked = _model(cls).model_validate_json(json.dumps(given, default=_as_text))
    except pydantic.ValidationError as error:
        raise _fault(cls, error, where) from error
    except TypeError as error:
        raise ConfigurationError(f"holds what is no text, number, list or mapping: {error}", where=where) from error
    return {
        field.name: getattr(checked, f"parameter_{position}")
        for position, field in enumerate(parameters(cls))
        if f"parameter_{position}" in checked.model_fields_set
    }


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema of what ``convert`` takes."""
    return _model(cls).model_json_schema()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint for a misspelt ``name``: the nearest of the public names in ``known``, and all of them."""
    candidates = sorted(item for item in known if item[0] != "_")
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"did you mean `{near[0]}`? {one_of(candidates)}" if near else one_of(candidates)


def one_of(known: Iterable[str]) -> str:
    """The hint that lists what is ``known``."""
    return "known: " + (", ".join(f"`{item}`" for item in known) or "none")


@lru_cache(maxsize=256)
def _model(cls: type) -> type[pydantic.BaseModel]:
    """A model of the parameters alone: the dataclass itself is built by its own constructor."""
    hints = get_type_hints(cls, include_extras=True)
    columns: dict[str, Any] = {}
    for position, field in enumerate(parameters(cls)):
        default: Any = {} if field.default is MISSING else {"default": field.default}
        if field.default_factory is not MISSING:
            default = {"default_factory": field.default_factory}
        # The alias is the name: a parameter may then be called `json` or `copy`, which pydantic's models have as verbs.
        columns[f"parameter_{position}"] = (hints[field.name], pydantic.Field(alias=field.name, **default))
    config = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    try:
        return pydantic.create_model(cls.__name__, __config__=config, __doc__=cls.__doc__, **columns)
    except pydantic.PydanticUserError as error:
        raise ConfigurationError(f"`{cls.__name__}` has a parameter of a type that YAML cannot give") from error


def _as_text(value: Any) -> str:
    if isinstance(value, Decimal | Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__}")


def _fault(cls: type, error: pydantic.ValidationError, where: str) -> ConfigurationError:
    """One fault, in our words; a misspelt name first, because it also makes another one missing."""
    fault = min(error.errors(include_url=False), key=lambda found: found["type"] not in _UNKNOWN)
    path = where + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    if fault["type"] in _UNKNOWN:
        hint = did_you_mean(str(fault["loc"][-1]), _known_at(cls, fault["loc"][:-1]))
        return ConfigurationError("unknown parameter", where=path, hint=hint)
    if fault["type"] == "missing":
        return ConfigurationError("must be given", where=path)
    if fault["type"] == "value_error":
        return ConfigurationError(str(fault["ctx"]["error"]), where=path)
    hint = ""
    if isinstance(fault["input"], str) and fault["type"] in {"float_type", "int_type"}:
        hint = "this is text to YAML: write numbers without quotes, and 1.0e-3 for 1e-3"
    return ConfigurationError(fault["msg"].removeprefix("Input "), where=path, hint=hint)


def _known_at(cls: Any, path: tuple[int | str, ...]) -> list[str]:
    """The names that are allowed at ``path`` inside the parameters of ``cls``; none where that is no dataclass."""
    kind = cls
    for step in path:
        if is_dataclass(kind):
            kind = _without_none(get_type_hints(kind).get(str(step)))
        else:  # an item of a mapping or a sequence
            kind = _without_none(([inner for inner in get_args(kind) if inner is not ...] or [None])[-1])
    return [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else []


def _without_none(kind: Any) -> Any:
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return next(choice for choice in get_args(kind) if choice is not NoneType)
    return kind
