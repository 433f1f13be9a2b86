"""JSON Schema: compiled once for each schema, without fetching what it refers to, patterns in linear time.

Schemas come from clients as well as from policy files, so neither a reference to an address nor a pattern that makes a
backtracking engine work for ever may cost anything.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

try:
    import jsonschema_rs
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("judging by JSON Schema needs `pip install 'headrace[judges]'`") from error

_MOST_COMPILED = 256
_MOST_SCHEMA_BYTES = 256 * 1024

Compiled = jsonschema_rs.Validator | str
"""A validator, or why there is none."""


class Schemas:
    """The compiled ones, by their text; the whole shelf is cleared when it is full."""

    def __init__(self) -> None:
        self._compiled: dict[bytes, Compiled] = {}

    def fault(self, schema: Any, value: Any) -> tuple[bool | None, str]:
        """Whether ``value`` fits ``schema``, and why not, without a word of either; ``None`` where that is unknown."""
        validator = self._compile(schema)
        if isinstance(validator, str):
            return None, validator
        try:
            error = next(iter(validator.iter_errors(value)), None)
        except (ValueError, RecursionError):
            return None, "the answer is nested too deeply to be checked"
        if error is None:
            return True, ""
        return False, f"`{_keyword(error.schema_path)}` does not hold, {len(error.instance_path)} levels deep"

    def _compile(self, schema: Any) -> Compiled:
        try:
            text = msgspec.json.encode(schema)
        except (TypeError, ValueError, RecursionError):
            return "the schema is no JSON"
        known = self._compiled.get(text)
        if known is None:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            known = self._compiled[text] = _compiled(schema, len(text))
        return known


def _compiled(schema: Any, length_bytes: int) -> Compiled:
    if length_bytes > _MOST_SCHEMA_BYTES:
        return f"the schema is longer than {_MOST_SCHEMA_BYTES} bytes"
    if not isinstance(schema, Mapping | bool):
        return "the schema is none"
    plain = schema if isinstance(schema, bool) else dict(schema)
    try:
        return jsonschema_rs.validator_for(plain, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, TypeError, RecursionError):
        return "the schema is none, refers to another document, or has a pattern that takes more than linear time"


def _keyword(path: list[str | int]) -> str:
    """The schema's keyword that speaks; names of properties, which are somebody's words, are not it."""
    words = [step for step in path if isinstance(step, str) and step in _KEYWORDS]
    return words[-1] if words else "schema"


_KEYWORDS = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "items",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "required",
        "then",
        "type",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
