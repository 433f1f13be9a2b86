from typing import Any

import pytest

from backends._entra import Entra
from backends.azure_openai import AzureOpenAI
from gateway.rules.plugins import build
from gateway.types import Operation


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"resource": "r", "base_url": "https://r.example/openai"},
        {"resource": "r", "api_key_env": "A_A", "entra": Entra()},
        {"resource": "r", "headers": {"api-key": "x"}},
        {"resource": "r", "api_key_env": "not a name"},
        {"resource": "r", "max_connections": 0},
    ],
)
def test_where_and_who_are_said_in_one_way(fields: dict[str, Any]) -> None:
    """And completely."""
    with pytest.raises(ValueError, match="`"):
        AzureOpenAI(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"resource": "r"}, ("AZURE_OPENAI_API_KEY",)),
        ({"resource": "r", "entra": {}}, ()),
        ({"resource": "r", "entra": {"tenant_id": "t", "client_id": "c", "client_secret_env": "S_S"}}, ("S_S",)),
        ({"base_url": "https://r.example/openai"}, ()),
    ],
)
def test_its_needs_are_what_says_who_asks(tmp_path: Any, fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    """A server elsewhere gets no key unless it is named."""
    backend = build("backend", {"use": "azure_openai", **fields}, where="backends.x")
    assert expected == backend.needs(tmp_path).environment


def test_responses_are_its_own_at_one_address() -> None:
    """And translated at the other, which has none."""
    assert Operation.RESPONSE not in AzureOpenAI(resource="r").facts().translates
    dated = AzureOpenAI(resource="r", api_version="2024-10-21").facts()
    assert Operation.RESPONSE in dated.translates & dated.operations
