"""What is told of the routes whose requests are passed on as they came: what we look at, and no more.

Their fields and their answers are the upstream's, of which OpenAI's own document tells.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from gateway.openapi.headers import ANSWERED, REQUEST_HEADERS
from gateway.openapi.inference import ERRORS, EVENTS
from gateway.openapi.told import JSON, Answer, Shape, Told
from gateway.types import Operation
from gateway.wire.form_body import FORM
from gateway.wire.openai_fields import MOST_MODEL_CHARACTERS
from gateway.wire.passages import Passage
from gateway.wire.transport_fields import NAMES_ALLOWED

_SUMMARIES: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.MODERATION: "OpenAI's moderations",
        Operation.TRANSCRIPTION: "OpenAI's transcriptions of sound",
        Operation.TRANSLATION: "OpenAI's translations of sound",
        Operation.SPEECH: "OpenAI's speech",
        Operation.IMAGE: "OpenAI's pictures",
        Operation.IMAGE_EDIT: "OpenAI's edits of pictures",
        Operation.IMAGE_VARIATION: "OpenAI's variations of pictures",
        Operation.RERANK: "Documents in the order of what they have to do with a query, as Cohere and others have it",
    }
)


def told_of_passage(passage: Passage) -> Told:
    """What is told of such an operation."""
    body = _body(passage)
    shapes: dict[str, Shape] = {
        JSON: {"description": "The upstream's own."},
        EVENTS: {"type": "object", "description": "One server-sent event, where the upstream streams."},
        "*/*": {"description": "Sound, pictures or text, as the upstream names them."},
    }
    answer = Answer(words="The upstream's answer.", shapes=shapes, headers=ANSWERED, always=frozenset({"x-request-id"}))
    return Told(
        summary=_SUMMARIES[passage.operation],
        answers={HTTPStatus.OK: answer},
        errors=ERRORS,
        parameters=REQUEST_HEADERS,
        body=body,
        bodies={FORM: body} if passage.uploads else {},
        tag="passed on",
    )


def _body(passage: Passage) -> Mapping[str, Any]:
    needed = [*passage.needs, *(() if passage.default_model else ("model",))]
    model = {"type": "string", "minLength": 1, "maxLength": MOST_MODEL_CHARACTERS}
    return {"type": "object", "properties": {"model": model}, "required": sorted(needed), **NAMES_ALLOWED}
