"""What pydantic finds wrong with the shape of a policy file, in our words and with the paths that people write."""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.errors import ConfigurationError
from gateway.rules.faults import Misfit, misfit_error
from gateway.rules.parameters import in_our_words, nearest

_KIND = re.compile(r"(constrained-)?(str|int|float|bool)|.*\[.*\]|[A-Z]\w*")
"""How pydantic names a kind of value that it tried, or a mapping's key."""


def shape_error(error: ValidationError, tree: Any, model: type[BaseModel]) -> ConfigurationError:
    """All that does not fit: each place once.

    Args:
        error: what pydantic found.
        tree: the file as YAML has it.
        model: what the whole file should be.
    """
    return misfit_error([_misfit(one, tree, model) for one in error.errors(include_url=False)])


def _misfit(found: ErrorDetails, tree: Any, model: type[BaseModel]) -> Misfit:
    where = _path(found, tree)
    if found["type"] == "extra_forbidden":
        known = _fields_at(model, found["loc"][:-1])
        near = nearest(str(found["loc"][-1]), known)
        hint = f"did you mean `{near}`?" if near else f"fields here are {', '.join(known)}"
        error = ConfigurationError(f"unknown field `{found['loc'][-1]}`", where=where, hint=hint)
        return Misfit(error, unknown=True, instead=near)
    if (found["type"], found["loc"][-1:]) == ("string_type", ("str",)):  # a step, which may be a mapping as well
        return Misfit(ConfigurationError("should be a plugin: its name, or a mapping with `use`", where=where))
    error = ConfigurationError(in_our_words(found), where=where, hint=_hint(found))
    return Misfit(error, missing=found["type"] == "missing")


def _hint(error: ErrorDetails) -> str:
    if error["loc"][-1:] == ("[key]",):
        return "names are lower-case letters, digits, `_`, `.` and `-`"
    if "keys_sha256" in error["loc"]:
        return 'the SHA-256 of the key in hex: printf %s "$KEY" | sha256sum'
    if isinstance(error["input"], str) and error["type"] in {"float_type", "int_type"}:
        return "this is text to YAML: write numbers without quotes, and 1.0e-3 for 1e-3"
    if error["type"] == "string_type" and isinstance(error["input"], bool | int | float):
        return (
            f"to YAML this is {'true or false' if isinstance(error['input'], bool) else 'a number'}: put it in quotes"
        )
    return ""


def _path(found: ErrorDetails, tree: Any) -> str:
    """The place as people write it: pydantic also names which kind of value it tried, which stands in no file."""
    text, node = "", tree
    for part in found["loc"]:
        if isinstance(part, int):
            node = node[part] if isinstance(node, list) and part < len(node) else None
            text += f"[{part}]"
        elif isinstance(node, Mapping) and part in node:
            node = node[part]
            text += f".{part}"
        elif _KIND.fullmatch(part) is None:
            node = None
            text += f".{part}"
    return text.lstrip(".")


def _plain(kind: Any) -> Any:
    """The type that an annotated or an optional one is about."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    some = [choice for choice in get_args(kind) if choice is not NoneType]
    return _plain(some[0]) if len(some) == 1 and NoneType in get_args(kind) else kind


def _fields_at(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """The field names that the models allow at a place in the file."""
    for part in loc:
        if isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = _plain(model.model_fields[str(part)].annotation)
        else:
            model = _plain((get_args(model) or (model,))[-1])
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []
