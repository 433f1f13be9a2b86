"""Anthropic's pages of models: validated by the official types, cut as its clients ask."""

from typing import Any

import anthropic.types as sdk
import pytest
from pydantic import TypeAdapter

from gateway.wire.anthropic_models import is_anthropic_client, model_info, model_page

NAMES = ["a", "b", "c", "d"]
CARD: TypeAdapter[Any] = TypeAdapter(sdk.ModelInfo)


def test_a_card_is_of_the_official_type() -> None:
    """With a time that reads as one."""
    card = CARD.validate_python(model_info("a/b", 1_700_000_000))
    assert ("a/b", "2023-11-14T22:13:20+00:00") == (card.id, card.created_at.isoformat())


PAGES: list[tuple[dict[str, str], list[str], bool]] = [
    ({}, NAMES, False),
    ({"limit": "2"}, ["a", "b"], True),
    ({"limit": "2", "after_id": "b"}, ["c", "d"], False),
    ({"limit": "2", "before_id": "d"}, ["b", "c"], True),
    ({"limit": "0"}, ["a"], True),
    ({"limit": "x"}, NAMES, False),
    ({"after_id": "none"}, NAMES, False),
    ({"after_id": "d"}, [], False),
]


@pytest.mark.parametrize(("query", "names", "more"), PAGES)
def test_a_page(query: dict[str, str], names: list[str], more: bool) -> None:
    """What it holds, whether there is more, and where it begins and ends."""
    page = model_page(NAMES, 0, query)
    assert (names, more) == ([card["id"] for card in page["data"]], page["has_more"])
    assert (names[:1] or [None], names[-1:] or [None]) == ([page["first_id"]], [page["last_id"]])


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/v1/messages", [], True),
        ("/v1/messages/count_tokens", [], True),
        ("/v1/models", [], False),
        ("/v1/models", [(b"anthropic-version", b"1")], True),
    ],
)
def test_who_is_a_client_of_anthropics(path: str, headers: list[tuple[bytes, bytes]], expected: bool) -> None:
    """By the path that only they have, or the header that they must send."""
    assert expected is is_anthropic_client(path, headers)
