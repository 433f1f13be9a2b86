"""JSON Schema: compiled once for each schema, without fetching what it refers to, patterns in linear time.

Schemas come from clients as well as from policy files, so neither a reference to an address nor a pattern that makes a
backtracking engine work for ever may cost anything.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

_MOST_COMPILED = 256
_MOST_SCHEMA_BYTES = 256 * 1024


class Schemas:
    """The compiled ones, by their text, or why there is none; the whole shelf is cleared when it is full.

    Raises:
        ValueError: the library that compiles them is not installed.
    """

    def __init__(self) -> None:
        try:
            import jsonschema_rs  # noqa: PLC0415  # an extra: whoever lists the judges need not have it
        except ModuleNotFoundError as error:
            raise ValueError("this needs `pip install 'headrace[judges]'`") from error
        self._library = jsonschema_rs
        self._compiled: dict[bytes, Any] = {}

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

    def _compile(self, schema: Any) -> Any:
        try:
            text = msgspec.json.encode(schema)
        except (TypeError, ValueError, RecursionError):
            return "the schema is no JSON"
        known = self._compiled.get(text)
        if known is None:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            known = self._compiled[text] = self._compiled_anew(schema, len(text))
        return known

    def _compiled_anew(self, schema: Any, length_bytes: int) -> Any:
        if length_bytes > _MOST_SCHEMA_BYTES:
            return f"the schema is longer than {_MOST_SCHEMA_BYTES} bytes"
        if not isinstance(schema, Mapping | bool):
            return "the schema is none"
        plain = schema if isinstance(schema, bool) else dict(schema)
        try:
            return self._library.validator_for(plain, offline=True, pattern_options=self._library.RegexOptions())
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
