"""The operations that are passed on as they came: where they are asked for, how, and what can be known beforehand.

One table. Readers, limits, forecasts, the routes of the gateway and the paths of upstreams are all made from it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from gateway.types import Operation
from gateway.units import Units, Work

_KIND = re.compile(r"[A-Za-z0-9._-]{1,32}")


class Asked(Struct, frozen=True, kw_only=True):
    """What a body says that matters to us, of JSON or a form: how many pictures of which kind, which text, how much."""

    n: int = 1
    size: str = ""
    quality: str = ""
    text_characters: int = 0
    text_bytes: int = 0
    documents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One such operation.

    ``paths`` are where clients ask for it, the usual one first; ``upstream_path`` is where it is below an upstream's
    ``/v1``. ``uploads`` tells that its body is a form with files in it, though JSON will do. ``default_model`` is whom
    OpenAI takes where the client names none; empty where it must. ``needs`` are fields without which nobody can answer.
    ``units`` is what is known of a request beforehand.
    """

    operation: Operation
    paths: tuple[str, ...]
    upstream_path: str
    uploads: bool = False
    default_model: str = ""
    needs: tuple[str, ...] = ()
    units: Callable[[Asked], Units]


def kind_word(value: Any) -> str:
    """A size or a quality as a word that may stand in a table; empty where it is none, or left to the upstream."""
    return value if isinstance(value, str) and value != "auto" and _KIND.fullmatch(value) else ""


def _nothing(_: Asked) -> Units:
    return Units()


def _heard(_: Asked) -> Units:
    return Units(work=Work.LISTENING)


def _pictures(asked: Asked) -> Units:
    return Units(work=Work.DRAWING, images=asked.n, size=asked.size, quality=asked.quality)


def _spoken(asked: Asked) -> Units:
    return Units(work=Work.SPEAKING, characters=asked.text_characters)


def _ranked(asked: Asked) -> Units:
    return Units(work=Work.RANKING, documents=asked.documents)


PASSAGES: Mapping[Operation, Passage] = MappingProxyType(
    {
        passage.operation: passage
        for passage in (
            Passage(
                operation=Operation.MODERATION,
                paths=("/v1/moderations",),
                upstream_path="/moderations",
                default_model="omni-moderation-latest",
                needs=("input",),
                units=_nothing,
            ),
            Passage(
                operation=Operation.TRANSCRIPTION,
                paths=("/v1/audio/transcriptions",),
                upstream_path="/audio/transcriptions",
                uploads=True,
                units=_heard,
            ),
            Passage(
                operation=Operation.TRANSLATION,
                paths=("/v1/audio/translations",),
                upstream_path="/audio/translations",
                uploads=True,
                units=_heard,
            ),
            Passage(
                operation=Operation.SPEECH,
                paths=("/v1/audio/speech",),
                upstream_path="/audio/speech",
                needs=("input",),
                units=_spoken,
            ),
            Passage(
                operation=Operation.IMAGE,
                paths=("/v1/images/generations",),
                upstream_path="/images/generations",
                needs=("prompt",),
                units=_pictures,
            ),
            Passage(
                operation=Operation.IMAGE_EDIT,
                paths=("/v1/images/edits",),
                upstream_path="/images/edits",
                uploads=True,
                units=_pictures,
            ),
            Passage(
                operation=Operation.IMAGE_VARIATION,
                paths=("/v1/images/variations",),
                upstream_path="/images/variations",
                uploads=True,
                units=_pictures,
            ),
            Passage(
                operation=Operation.RERANK,
                paths=("/v1/rerank", "/v2/rerank", "/rerank"),
                upstream_path="/rerank",
                needs=("query",),
                units=_ranked,
            ),
        )
    }
)

PASSED = frozenset(PASSAGES)

UPLOADS = frozenset(operation for operation, passage in PASSAGES.items() if passage.uploads)
"""Whose bodies hold files, and so may be long."""
