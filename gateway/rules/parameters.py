"""What stands in YAML -> what a dataclass's constructor takes, checked, or an error that says where and what.

Strict: a number in quotes is no number, an unknown name is an error and never ignored, at any depth. A ``Decimal`` gets
the digits that were written. Only ranges are left to the dataclass's own ``__post_init__``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import pydantic
from pydantic_core import ErrorDetails

from gateway.errors import ConfigurationError
from gateway.rules.faults import Misfit, misfit_error

# pydantic's names for an unknown parameter, at the top and below.
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

_TYPES: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    Decimal: "number",
    bool: "true or false",
    Path: "path",
}

# What pydantic found, in our words; `{...}` are filled in from what it says of the fault.
_WORDS = {
    "missing": "must be given",
    "dataclass_type": "should be a mapping",
    "model_type": "should be a mapping",
    "dict_type": "should be a mapping",
    "mapping_type": "should be a mapping",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "frozen_set_type": "should be a list",
    "set_type": "should be a list",
    "string_type": "should be text",
    "string_pattern_mismatch": "has a form that is not allowed here",
    "string_too_short": "should not be empty",
    "string_too_long": "should have at most {max_length} characters",
    "too_short": "should not be empty",
    "bool_type": "should be true or false",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "greater_than": "should be more than {gt:g}",
    "greater_than_equal": "should be at least {ge:g}",
    "less_than": "should be less than {lt:g}",
    "less_than_equal": "should be at most {le:g}",
}


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
        ConfigurationError: with the path of the first fault, and all others beside it.
    """
    try:
        # As JSON, where strict means "no number from text", and yet a list may become a tuple and text a path.
        checked = _model(cls).model_validate_json(json.dumps(given, default=_as_text))
    except pydantic.ValidationError as error:
        # The deepest first, because of a type's several choices that is the one which was meant.
        found = sorted(error.errors(include_url=False), key=lambda fault: -len(fault["loc"]))
        raise misfit_error([_misfit(cls, fault, where) for fault in found]) from error
    except TypeError as error:
        raise ConfigurationError(f"holds what is no text, number, list or mapping: {error}", where=where) from error
    return {
        field.name: getattr(checked, f"parameter_{position}")
        for position, field in enumerate(parameters(cls))
        if f"parameter_{position}" in checked.model_fields_set
    }


def forget_models() -> None:
    """Gives up what ``convert`` has built to check parameters with: it is much, and of use while a file is read."""
    _model.cache_clear()


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema of what ``convert`` takes."""
    return _model(cls).model_json_schema()


def in_our_words(fault: ErrorDetails) -> str:
    """What pydantic found, as we say it; in its own words where we have none."""
    words = _WORDS.get(fault["type"])
    return fault["msg"].removeprefix("Input ") if words is None else words.format_map(fault.get("ctx", {}))


def in_words(kind: Any) -> str:
    """A parameter's type as somebody says it who writes YAML."""
    choices = _choices(kind)
    if len(choices) > 1:
        return " or ".join(sorted((in_words(choice) for choice in choices), key=len))
    if _is_dataclass(choices[0]):
        return f"mapping with {', '.join(field.name for field in parameters(choices[0]))}"
    if isinstance(choices[0], type) and issubclass(choices[0], Enum):
        return _one_word_of([member.value for member in choices[0]])
    return _holding_in_words(choices[0]) if get_args(choices[0]) else _TYPES.get(choices[0], "anything")


def _holding_in_words(kind: Any) -> str:
    origin, held = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _one_word_of(held)
    if origin in {Mapping, dict}:
        return f"mapping of {in_words(held[0])} to {in_words(held[1])}"
    return in_words(held[0]) if origin is Annotated else f"list of {in_words(held[0])}"


def _one_word_of(words: Sequence[object]) -> str:
    quoted = ", ".join(f"`{word}`" if word != "" else '`""`' for word in words)
    return f"one of {quoted}" if len(words) > 1 else quoted


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint for a misspelt ``name``: the nearest of the public names in ``known``, and all of them."""
    candidates = sorted(item for item in known if item[0] != "_")
    near = nearest(name, candidates)
    return f"did you mean `{near}`? {one_of(candidates)}" if near else one_of(candidates)


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that was likely meant; empty where none is like it."""
    import difflib  # noqa: PLC0415  # of use only where something is wrong

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")


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
    config = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)
    try:
        return pydantic.create_model(cls.__name__, __config__=config, __doc__=cls.__doc__, **columns)
    except pydantic.PydanticUserError as error:
        raise ConfigurationError(f"`{cls.__name__}` has a parameter of a type that YAML cannot give") from error


def _as_text(value: Any) -> str:
    if isinstance(value, Decimal | Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__}")


def _misfit(cls: type, fault: ErrorDetails, where: str) -> Misfit:
    path, around = _locate(cls, fault["loc"], where)
    if fault["type"] in _UNKNOWN:
        name = str(fault["loc"][-1])
        known = [field.name for field in parameters(around)] if _is_dataclass(around) else []
        error = ConfigurationError("unknown parameter", where=path, hint=did_you_mean(name, known))
        return Misfit(error, unknown=True, instead=nearest(name, known))
    if fault["type"] == "value_error":
        return Misfit(ConfigurationError(str(fault["ctx"]["error"]), where=path))
    hint = ""
    if isinstance(fault["input"], str) and fault["type"] in {"float_type", "int_type"}:
        hint = "this is text to YAML: write numbers without quotes, and 1.0e-3 for 1e-3"
    missing = fault["type"] == "missing"
    return Misfit(ConfigurationError(in_our_words(fault), where=path, hint=hint), missing=missing)


def _locate(cls: type, steps: tuple[int | str, ...], where: str) -> tuple[str, Any]:
    """The path of ``steps`` in YAML, and the type that holds the last of them."""
    path, around = where, None
    kind: Any = cls
    for step in steps:
        choices = _choices(kind)
        if len(choices) > 1:  # not a step in YAML: it tells which choice was tried
            kind = next((choice for choice in choices if _tells(str(step), choice)), None)
            continue
        around = choices[0]
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
        if _is_dataclass(around):
            kind = get_type_hints(around).get(str(step))
        else:  # an item of a mapping or a sequence
            kind = next((inner for inner in reversed(get_args(around)) if inner is not ...), None)
    return path, around


def _choices(kind: Any) -> list[Any]:
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return [choice for choice in get_args(kind) if choice is not NoneType]
    return [kind]


def _tells(tag: str, choice: Any) -> bool:
    """Whether pydantic's ``tag`` (``dict[str,Price]``, ``Price``) is that of ``choice``, where we look inside it."""
    if _is_dataclass(choice):
        return choice.__name__ in tag
    return tag.startswith("dict[") and get_origin(choice) in {Mapping, dict}


def _is_dataclass(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and is_dataclass(kind)
