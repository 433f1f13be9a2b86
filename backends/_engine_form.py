"""What an answer must look like, by OpenAI's field or vLLM's, as the engine's grammar."""

from typing import Any

import msgspec

from backends._engine_fields import field, refused, text_of
from embedded_engine.messages import GrammarText
from gateway.types import ChatRequest

GUIDED = {"guided_json": "json", "guided_regex": "regex", "guided_choice": "choice", "guided_grammar": "grammar"}
"""vLLM's older names, and what each is called inside ``structured_outputs``."""


class _Schema(msgspec.Struct):
    schema: Any = None
    strict: bool | None = None


class _ResponseFormat(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


def form_of(request: ChatRequest) -> GrammarText | None:
    """The grammar that ``request`` asks for, or ``None``.

    Raises:
        UpstreamRefused: it asks for two, or for a kind that the engine does not know.
    """
    asked = [*_response_format(request), *_structured(request), *_guided(request)]
    if len(asked) > 1:
        raise refused(f"{asked[1].param} and {asked[0].param} exclude each other", asked[1].param, code="invalid_value")
    return asked[0] if asked else None


def _response_format(request: ChatRequest) -> list[GrammarText]:
    name = "response_format"
    asked = field(request, name, _ResponseFormat)
    match asked:
        case None | _ResponseFormat(type="text"):
            return []
        case _ResponseFormat(type="json_object"):
            return [GrammarText(kind="json_object", param=name)]
        case _ResponseFormat(type="json_schema", json_schema=_Schema(schema=schema, strict=strict)):
            where = f"{name}.json_schema.schema"
            return [_json(schema if schema is not None else {}, where, strict=bool(strict))]
    raise refused(f"this model takes no {name} of type {asked.type!r}", f"{name}.type")


def _structured(request: ChatRequest) -> list[GrammarText]:
    name = "structured_outputs"
    fields = field(request, name, dict[str, Any]) or {}
    return [
        _one(kind, value, f"{name}.{kind}")
        for kind, value in fields.items()
        if value is not None and value is not False
    ]


def _guided(request: ChatRequest) -> list[GrammarText]:
    found = {name: field(request, name, object) for name in GUIDED}
    return [_one(GUIDED[name], value, name) for name, value in found.items() if value is not None]


def _one(kind: str, value: Any, where: str) -> GrammarText:
    match kind, value:
        case "json", _:
            return _json(value, where, strict=True)
        case "json_object", True:
            return GrammarText(kind="json_object", param=where)
        case "choice", list():
            return GrammarText(kind="choice", text=text_of(value), param=where)
        case "regex", str():
            return GrammarText(kind="regex", text=value, param=where)
        case "grammar", str():
            return GrammarText(kind="lark", text=value, param=where)
    raise refused(f"this model does not take {where}", where)


def _json(schema: Any, where: str, *, strict: bool) -> GrammarText:
    """VLLM takes a schema as text, too."""
    text = schema if isinstance(schema, str) else text_of(schema)
    return GrammarText(kind="json_schema", text=text, strict=strict, param=where)
