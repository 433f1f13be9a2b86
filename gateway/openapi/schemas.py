"""JSON schemas of what bodies are read with and answers are made of: structs of msgspec tell their own."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from gateway.openapi.events import event_of
from gateway.openapi.told import Events, Shape

_PLACE = "#/components/schemas/"
_PRIVATE = re.compile(r"^_+")


class Schemas:
    """The schemas of all shapes of a document.

    ``components`` are what they refer to, by names such as ``openai_chat.Tool`` where two have the same.

    Args:
        shapes: all that there are.
    """

    def __init__(self, shapes: Iterable[Shape]) -> None:
        self._types = list(dict.fromkeys(chain.from_iterable(map(_types, shapes))))
        schemas, components = msgspec.json.schema_components(self._types, ref_template=_PLACE + "{name}")
        names = {name: _public(name) for name in components}
        twice = [name for name, count in Counter(names.values()).items() if count > 1]
        if twice:
            raise ValueError(f"two schemas have the same name: {', '.join(twice)}")
        self._schemas = [_renamed(schema, names) for schema in schemas]
        self.components = {names[name]: _renamed(schema, names) for name, schema in sorted(components.items())}

    def of(self, shape: Shape) -> Mapping[str, Any]:
        """The schema of one of the shapes."""
        if isinstance(shape, Mapping):
            return shape
        if isinstance(shape, Events):
            return event_of(self.of(shape.shapes), ended=shape.ended, named=shape.named)
        schemas = [self._schemas[self._types.index(one)] for one in _types(shape)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _types(shape: Shape) -> tuple[Any, ...]:
    if shape is None or isinstance(shape, Mapping):
        return ()
    if isinstance(shape, Events):
        return shape.shapes
    return shape if isinstance(shape, tuple) else (shape,)


def _public(name: str) -> str:
    """The last module and the class, for those whose name alone is not enough to tell them apart."""
    return ".".join(_PRIVATE.sub("", part) for part in name.rsplit(".", 2)[-2:])


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """The schema with its references by the names that people see, and money as the number that it is told as."""
    if isinstance(schema, Mapping):
        found = {key: _renamed(value, names) for key, value in schema.items()}
        if found.get("format") == "decimal":
            found["type"] = "number"
            del found["format"]
        kinds = [found, *found.get("anyOf", ())]
        if isinstance(found.get("default"), str) and any(kind.get("type") == "number" for kind in kinds):
            found["default"] = float(found["default"])
        place = found.get("$ref")
        if isinstance(place, str):
            found["$ref"] = _PLACE + names[place.removeprefix(_PLACE)]
        if isinstance(found.get("title"), str):
            found["title"] = _PRIVATE.sub("", found["title"])
        return found
    return [_renamed(one, names) for one in schema] if _is_array(schema) else schema


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
