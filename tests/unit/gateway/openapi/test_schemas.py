from decimal import Decimal

import msgspec
import pytest

from gateway.openapi.schemas import Schemas
from gateway.openapi.told import Events


class _Money(msgspec.Struct):
    usd: Decimal = Decimal(0)
    unknown_usd: Decimal | None = None


class _Text(msgspec.Struct):
    text: str


class Text(msgspec.Struct):
    """Of the same name, but for its underscore."""

    text: int


def test_money_is_a_number() -> None:
    """As it is told, exact; its default too."""
    schemas = Schemas([_Money])
    assert {"$ref": "#/components/schemas/Money"} == schemas.of(_Money)
    fields = schemas.components["Money"]["properties"]
    assert {"type": "number", "default": 0.0} == fields["usd"]
    assert [{"type": "number"}, {"type": "null"}] == fields["unknown_usd"]["anyOf"]


def test_one_of_several_is_any_of_them() -> None:
    """Each by its own schema."""
    schemas = Schemas([(_Money, _Text)])
    places = [f"#/components/schemas/{name}" for name in ("Money", "Text")]
    assert places == [one["$ref"] for one in schemas.of((_Money, _Text))["anyOf"]]


def test_a_stream_is_told_event_by_event() -> None:
    """Its data is JSON of a schema, or OpenAI's end mark."""
    events = Events(shapes=(_Text,), ended=True)
    told = Schemas([events]).of(events)
    mark, data = told["properties"]["data"]["anyOf"]
    assert ({"const": "[DONE]"}, "#/components/schemas/Text") == (mark, data["contentSchema"]["$ref"])
    assert ["data"] == told["required"]


def test_a_schema_that_is_given_is_told_as_it_is() -> None:
    """And nothing where there is none."""
    schemas = Schemas([None, {"type": "string"}])
    assert {"type": "string"} == schemas.of({"type": "string"})
    assert {} == schemas.components


def test_two_of_one_name_are_a_mistake() -> None:
    """Of ours: a document would tell one of them for both."""
    with pytest.raises(ValueError, match="the same name"):
        Schemas([_Text, Text])
