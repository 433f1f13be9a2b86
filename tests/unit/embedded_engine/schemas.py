"""Schemas as people write them, and some that are meant to be difficult."""

from typing import Any

_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def _closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


KEPT: dict[str, Any] = {
    "anything": True,
    "empty": {},
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "short string": {"type": "string", "minLength": 2, "maxLength": 8},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "several types": {"type": ["integer", "null", "boolean"]},
    "enum": {"enum": ["red", "green", "blue"]},
    "enum of kinds": {"enum": [1, "one", None, True, {"a": [1, 2]}]},
    "enum with escapes": {"enum": ['say "hi"', "back\\slash", "new\nline", "tab\t"]},
    "const": {"const": "fixed"},
    "const object": {"const": {"version": 2, "tags": []}},
    "range": {"type": "integer", "minimum": 3, "maximum": 17},
    "negative range": {"type": "integer", "minimum": -120, "maximum": -7},
    "open range": {"type": "integer", "minimum": 100},
    "exclusive range": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
    "number range": {"type": "number", "minimum": -1.5, "maximum": 2.25},
    "exclusive number range": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "multiple": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 1000},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "pattern with choices": {"type": "string", "pattern": "^(GET|POST) /[a-z]{1,12}$"},
    "unanchored pattern": {"type": "string", "pattern": "[0-9]", "maxLength": 20},
    "date": {"type": "string", "format": "date"},
    "date and time": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "uuid": {"type": "string", "format": "uuid"},
    "ipv4": {"type": "string", "format": "ipv4"},
    "array": {"type": "array", "items": {"type": "boolean"}, "maxItems": 6},
    "bounded array": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "exact array": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "maxItems": 3},
    "empty array": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"enum": ["x"]}], "items": False, "minItems": 2},
    "tuple with a tail": {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"}, "maxItems": 5},
    "array of arrays": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        "minItems": 1,
        "maxItems": 3,
    },
    "empty object": {"type": "object", "additionalProperties": False},
    "object": {"type": "object"},
    "person": _PERSON,
    "optional": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "all optional": {
        "type": "object",
        "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}, "c": {"enum": [3]}},
        "additionalProperties": False,
    },
    "nested": _closed(
        user=_closed(person=_PERSON, roles={"type": "array", "items": {"enum": ["admin", "user"]}, "maxItems": 2})
    ),
    "deep": _closed(a=_closed(b=_closed(c=_closed(d=_closed(e={"type": "boolean"}))))),
    "typed extra names": {"type": "object", "additionalProperties": {"type": "integer"}, "required": ["total"]},
    "named by pattern": {
        "type": "object",
        "patternProperties": {"^x_[a-z]{1,8}$": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "unicode names": _closed(
        **{"größe": {"type": "integer"}, "名前": {"type": "string", "maxLength": 6}, "🦙": {"type": "boolean"}}
    ),
    "names with escapes": _closed(
        **{'a"b': {"type": "integer"}, "c\\d": {"type": "null"}, "e/f g": {"type": "boolean"}}
    ),
    "unicode values": {"enum": ["Zürich", "東京", "naïve café", "🌊"]},
    "any of": {"anyOf": [{"type": "integer"}, _closed(error={"type": "string", "maxLength": 20})]},
    "one of types": {"oneOf": [{"type": "string", "maxLength": 10}, {"type": "integer"}]},
    "one of kinds": {
        "oneOf": [
            _closed(kind={"const": "cat"}, lives={"type": "integer"}),
            _closed(kind={"const": "dog"}, barks={"type": "boolean"}),
        ]
    },
    "all of": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 9}]},
    "all of objects": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ],
        "additionalProperties": False,
        "properties": {"a": {}, "b": {}},
    },
    "reference": {
        "$defs": {"point": _closed(x={"type": "integer"}, y={"type": "integer"})},
        **_closed(begin={"$ref": "#/$defs/point"}, end={"$ref": "#/$defs/point"}),
    },
    "old reference": {"definitions": {"flag": {"type": "boolean"}}, **_closed(flag={"$ref": "#/definitions/flag"})},
    "list that refers to itself": {
        "$defs": {
            "list": {
                "anyOf": [{"type": "null"}, _closed(value={"type": "boolean"}, rest={"$ref": "#/$defs/list"})],
            }
        },
        "$ref": "#/$defs/list",
    },
    "tree": {
        **_closed(value={"type": "integer"}, children={"type": "array", "items": {"$ref": "#"}, "maxItems": 2}),
    },
    "nullable": _closed(note={"anyOf": [{"type": "string", "maxLength": 12}, {"type": "null"}]}),
    "described": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weather",
        "description": "What the weather is like.",
        **_closed(degrees={"type": "number", "description": "in Celsius", "examples": [21.5]}),
        "examples": [],
    },
    "function call": _closed(
        name={"const": "get_weather"},
        arguments=_closed(
            city={"type": "string", "maxLength": 24},
            unit={"enum": ["C", "F"]},
            days={"type": "integer", "minimum": 1, "maximum": 7},
        ),
    ),
    "many names": _closed(**{f"field_{number}": {"type": "boolean"} for number in range(30)}),
    "many values": {"enum": [f"value number {number}" for number in range(1000)]},
}
"""What must come out as it says."""

REFUSED: dict[str, tuple[Any, str]] = {
    "an unknown type": ({"type": "strin"}, "strin"),
    "a negation": ({"type": "string", "not": {"const": "x"}}, "not"),
    "a condition": ({"if": {"type": "string"}, "then": {"minLength": 1}}, "if"),
    "distinct items": ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "uniqueItems"),
    "an ambiguous one of": ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf"),
    "a reference into nowhere": ({"$ref": "#/$defs/none"}, "none"),
    "a reference to elsewhere": ({"$ref": "https://example.com/schema.json"}, "example.com"),
    "an unknown format": ({"type": "string", "format": "phone"}, "phone"),
    "a pattern that looks ahead": ({"type": "string", "pattern": "^(?=a)"}, "look"),
    "a broken pattern": ({"type": "string", "pattern": "("}, "unclosed"),
    "a contradiction": ({"type": "integer", "minimum": 5, "maximum": 4}, "minimum"),
    "nothing": (False, "nothing"),
    "a list": ([], "object"),
    "a text of any length": ({"const": "x" * 5000}, "4096"),
    "a pattern of any length": ({"type": "string", "pattern": "a" * 2000}, "1024"),
    "a chain of references": (
        {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(600)}, "$ref": "#/$defs/d0"},
        "500",
    ),
    "values without end": ({"enum": list(range(30_000))}, "20000"),
    "names without end": ({"properties": {f"p{n}": {} for n in range(1001)}}, "1000"),
}
"""What is refused, and a word that the reason has."""
