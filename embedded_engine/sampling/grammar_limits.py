"""What a grammar may be at most, checked before it is compiled.

llguidance bounds the work of its lexer and parser by itself. It does not bound the depth of chains of references, which
overflow the stack and so end the process somewhere past a thousand links, nor the length of expressions, which takes
minutes from some ten thousand characters on. These bounds are well below both and above what people write: OpenAI's API
takes schemas of at most 120,000 characters and 5,000 properties.
"""

from typing import Any

import msgspec

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import GrammarText

__all__ = ["checked_choices", "checked_schema", "checked_text"]

MAX_TEXT_BYTES = 256 * 1024
"""A schema's, as JSON, and all choices' together."""

MAX_SCHEMA_STRING_CHARACTERS = 4096
MAX_PATTERN_CHARACTERS = 1024
MAX_REFERENCES = 500
MAX_PROPERTIES = 1000
"""In one object, and values in one list."""

MAX_SCHEMA_VALUES = 20_000
MAX_CHOICES = 4096
MAX_REGEX_CHARACTERS = 4096
MAX_LARK_CHARACTERS = 16 * 1024
MAX_LARK_RULES = 500
MAX_LINE_CHARACTERS = 4096
MAX_MULTIPLE = 10_000
"""Of `multipleOf`: an automaton has a state for each remainder."""


def checked_text(grammar: GrammarText) -> str:
    """The text of a regular expression or a Lark grammar.

    Raises:
        InvalidRequest: It is too long, or has too many rules.
    """
    limit = MAX_REGEX_CHARACTERS if grammar.kind == "regex" else MAX_LARK_CHARACTERS
    if len(grammar.text) > limit:
        raise _refused(grammar, f"a {grammar.kind} may have at most {limit} characters")
    # A rule has a colon, and so has each reference in JSON that stands inside the grammar.
    if grammar.kind == "lark" and grammar.text.count(":") > MAX_LARK_RULES:
        raise _refused(grammar, f"a grammar may have at most {MAX_LARK_RULES} rules")
    if max(map(len, grammar.text.splitlines()), default=0) > MAX_LINE_CHARACTERS:
        raise _refused(grammar, f"a line may have at most {MAX_LINE_CHARACTERS} characters")
    return grammar.text


def checked_choices(grammar: GrammarText) -> list[str]:
    """The texts of which the answer is one.

    Raises:
        InvalidRequest: They are no list of texts, or too many.
    """
    _check_size(grammar, grammar.text)
    try:
        choices = msgspec.json.decode(grammar.text, type=list[str])
    except msgspec.MsgspecError as error:
        raise _refused(grammar, f"the choices must be a list of texts: {error}") from error
    if not 1 <= len(choices) <= MAX_CHOICES or not all(choices):
        raise _refused(grammar, f"there must be 1 to {MAX_CHOICES} choices, none of them empty")
    return choices


def checked_schema(grammar: GrammarText, text: str) -> Any:
    """A JSON Schema, parsed: an object or a truth value.

    Raises:
        InvalidRequest: It is no schema, or too large.
    """
    _check_size(grammar, text)
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refused(grammar, f"the schema is no JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise _refused(grammar, "a schema is an object or a truth value")
    _check_values(grammar, schema)
    return schema


def _check_size(grammar: GrammarText, text: str) -> None:
    if len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise _refused(grammar, f"it may have at most {MAX_TEXT_BYTES} bytes")


def _check_values(grammar: GrammarText, schema: Any) -> None:
    """Walk all values inside, without recursion."""
    waiting, values, references = [schema], 0, 0
    while waiting:
        value = waiting.pop()
        values += 1
        if isinstance(value, str) and len(value) > MAX_SCHEMA_STRING_CHARACTERS:
            raise _refused(grammar, f"a text in a schema may have at most {MAX_SCHEMA_STRING_CHARACTERS} characters")
        if isinstance(value, list | dict):
            if isinstance(value, dict):
                references += "$ref" in value or "$dynamicRef" in value
                _check_names(grammar, value)
            waiting += value.values() if isinstance(value, dict) else value
    if values > MAX_SCHEMA_VALUES:
        raise _refused(grammar, f"a schema may have at most {MAX_SCHEMA_VALUES} values")
    if references > MAX_REFERENCES:
        raise _refused(grammar, f"a schema may have at most {MAX_REFERENCES} references")


def _check_names(grammar: GrammarText, values: dict[str, Any]) -> None:
    if len(values) > MAX_PROPERTIES:
        raise _refused(grammar, f"an object of a schema may have at most {MAX_PROPERTIES} names")
    pattern = values.get("pattern")
    patterns = [*values.get("patternProperties", ())] if isinstance(values.get("patternProperties"), dict) else []
    if any(len(text) > MAX_PATTERN_CHARACTERS for text in [pattern, *patterns] if isinstance(text, str)):
        raise _refused(grammar, f"a pattern may have at most {MAX_PATTERN_CHARACTERS} characters")
    multiple = values.get("multipleOf")
    if isinstance(multiple, int | float) and multiple > MAX_MULTIPLE:
        raise _refused(grammar, f"multipleOf may be at most {MAX_MULTIPLE}")


def _refused(grammar: GrammarText, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{grammar.param} cannot be kept: {reason}", param=grammar.param)
