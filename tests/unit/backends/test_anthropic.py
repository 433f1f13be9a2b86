"""Anthropic's own API: what its parameters mean, what it says of itself, and which headers go up."""

from decimal import Decimal
from typing import Any

import pytest

from backends._models import ListedModel, ListedPrice
from backends.anthropic import Anthropic
from gateway.price import Usage
from gateway.types import Operation
from tests.contract.answer_scripts import AnthropicScript

PRICE = {"input_usd_per_mtok": Decimal(3), "output_usd_per_mtok": Decimal(15)}


def test_nothing_but_models_is_needed() -> None:
    """Its address, its key's name and its cache's rules are known."""
    backend = Anthropic(models=("claude",))
    facts = backend.facts()
    assert ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY") == (backend._address, backend._key_env)
    assert (1024, 300, True) == (
        facts.prompt_cache.min_tokens,
        facts.prompt_cache.ttl_s,
        facts.prompt_cache.at_first_token,
    )
    assert {Operation.MESSAGES, Operation.COUNT_TOKENS} == facts.operations - facts.translates
    assert Operation.CHAT in facts.translates


def test_a_server_elsewhere_gets_no_key_of_anthropics() -> None:
    """Unless it is named."""
    assert "" == Anthropic(base_url="https://other.example/v1")._key_env


def test_the_cache_has_its_shares_of_the_price() -> None:
    """A tenth to read, a quarter more to write; what the policy file says goes before."""
    models = {
        "usual": ListedModel(price=ListedPrice(**PRICE)),
        "own": ListedModel(price=ListedPrice(**PRICE, cached_input_usd_per_mtok=Decimal(1))),
    }
    facts = Anthropic(models=models).facts().models
    usage = Usage(prompt_tokens=3_000_000, cached_tokens=1_000_000, cache_write_tokens=1_000_000)
    assert (Decimal("7.05"), Decimal("7.75")) == tuple(facts[name].price.cost_usd(usage) for name in ("usual", "own"))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, "`max_tokens`"),
    ({"concurrency": 0}, "`concurrency`"),
    ({"headers": {"X-Api-Key": "k"}}, "parameters of their own"),
    ({"headers": {"anthropic-beta": "b"}}, "parameters of their own"),
    ({"base_url": "ftp://x"}, "base_url"),
    ({"models": ["a", "a"]}, "names one twice"),
]


@pytest.mark.parametrize(("parameters", "words"), WRONG)
def test_what_cannot_be_is_refused(parameters: dict[str, Any], words: str) -> None:
    """When the policy file is read, in words."""
    with pytest.raises(ValueError, match=words):
        Anthropic(**parameters)


HEADERS = [
    ((), {}, {"anthropic-version": "2023-06-01"}),
    (("a",), {}, {"anthropic-version": "2023-06-01", "anthropic-beta": "a"}),
    ((), {"anthropic-version": "2026-10-21"}, {"anthropic-version": "2026-10-21"}),
    (("a",), {"anthropic-beta": "b, a ,"}, {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}),
]


@pytest.mark.parametrize(("betas", "given", "expected"), HEADERS)
def test_version_and_betas(betas: tuple[str, ...], given: dict[str, str], expected: dict[str, str]) -> None:
    """The client's version goes before ours, and each beta goes up once."""
    assert expected == Anthropic(betas=betas)._headers(given)


async def test_the_key_goes_as_anthropic_wants_it(
    serve: Any, surroundings: Any, make_call: Any, recording_sink: Any
) -> None:
    """In ``x-api-key``, and in no other header."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(AnthropicScript().whole("a"))

    async with serve(respond) as upstream:
        backend = Anthropic(base_url=upstream.url, api_key_env="KEY", headers={"x-team": "t"})
        await backend.start("claude", surroundings(KEY="sk-1"))
        call = make_call(Operation.MESSAGES, max_tokens=9)
        await backend.send(call, recording_sink(call))
        await backend.close()
    sent = dict(upstream.requests[0].headers)
    assert ("sk-1", "t", None) == (sent["x-api-key"], sent["x-team"], sent.get("authorization"))
