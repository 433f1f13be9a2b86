from decimal import Decimal

import pytest

from backends._models import CAPABILITIES, ListedModel, listed
from gateway.card import Card
from gateway.errors import ConfigurationError
from gateway.facts import ModelFacts
from gateway.rules.plugins import build

PLAIN = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}


def _facts(models: object) -> dict[str, ModelFacts]:
    return dict(build("backend", {"use": "fake", "models": models}, where="backends.x").facts().models)


def test_a_list_of_names_says_nothing_more() -> None:
    """Models by name alone: everything about them is unknown, and so nothing is ruled out."""
    assert {"a": ModelFacts(), "b": ModelFacts()} == _facts(["a", "b"])


def test_a_mapping_says_what_is_known() -> None:
    """Context, capabilities and prices come out as the vocabulary's own types, with the digits that were written."""
    actual = _facts(
        {
            "a": {
                "context_tokens": 8192,
                "capabilities": ["tools"],
                "price": {"input_usd_per_mtok": 0.15, "output_usd_per_mtok": 0.6, "request_usd": 0.001},
            },
            "b": None,
        }
    )
    assert (8192, frozenset({"tools"})) == (actual["a"].context_tokens, actual["a"].capabilities)
    assert actual["a"].price is not None
    assert (Decimal("0.15"), Decimal("0.6")) == (
        actual["a"].price.input_usd_per_mtok,
        actual["a"].price.output_usd_per_mtok,
    )
    assert ModelFacts() == actual["b"]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"a": {"contxt_tokens": 1}}, "contxt_tokens"),
        ({"a": {"context_tokens": 0}}, "at least 1"),
        ({"a": {"price": {"input_usd_per_mtok": -1, "output_usd_per_mtok": 1}}}, "zero or more"),
        ({"a": {"price": {"input_usd_per_mtok": 1e30, "output_usd_per_mtok": 1}}}, "at most 1000000"),
        ({"a": {"price": {"input_usd_per_mtok": 1}}}, "output_usd_per_mtok"),
        ({"a": {"price": {**PLAIN, "reasoning_usd_per_mtok": -1}}}, "zero or more"),
        ({"a": {"price": {**PLAIN, "tiers": [{"input_usd_per_mtok": 1}]}}}, "above_prompt_tokens"),
        ({"a": {"price": {**PLAIN, "tiers": [{"above_prompt_tokens": 0}]}}}, "at least 1"),
        ({"a": {"price": {**PLAIN, "tiers": [{"above_prompt_tokens": 1, "input": 1}]}}}, "unknown parameter"),
        ({"a": {"price": {**PLAIN, "hours": [{"from_utc": "16:30", "until_utc": "24:00"}]}}}, "must be a time"),
        ({"a": {"price": {**PLAIN, "service_tiers": {"flex": {"output_usd_per_mtok": -1}}}}}, "zero or more"),
        ({"a": {"capabilities": ["tools", "vison"]}}, "there is no `vison`; did you mean `vision`"),
        ({"a": {"capabilities": ["x"]}}, "there is no `x`; there is audio, best_of"),
        ({"a": {"card": {"precison": "fp8"}}}, "precison"),
        ({"a": {"card": {"precision": "FP 8"}}}, "a word in small letters"),
        ({"a": {"card": {"equivalence": "exact"}}}, "claimed"),
        ({"a": {"card": {"equivalence": "verified"}}}, "`evidence` must say who verified it"),
        ({"a": {"card": {"evidence": "x" * 501}}}, "at most 500 characters"),
        (["a", "a"], "twice"),
        ([""], "empty"),
    ],
)
def test_a_mistake_is_refused(models: object, words: str) -> None:
    """A typing error, a price below zero or a name that stands there twice is told, with its place."""
    with pytest.raises(ConfigurationError, match=words):
        _facts(models)


def test_what_the_whole_backend_lacks_counts_where_a_model_does_not_say() -> None:
    """A model's own word about itself goes before what the preset says about all."""
    own = ListedModel(capabilities=frozenset({"many"}))
    actual = listed({"a": own, "b": None}, unsaid=ModelFacts(capabilities=CAPABILITIES - {"many"}))
    assert frozenset({"many"}) == actual["a"].capabilities
    assert CAPABILITIES - {"many"} == actual["b"].capabilities


@pytest.mark.parametrize(
    "rest",
    [
        {"use": "fake"},
        {"use": "openai_compatible", "base_url": "http://127.0.0.1:1/v1"},
        {"use": "anthropic"},
        {"use": "gemini"},
        {"use": "azure_openai", "resource": "r"},
        {"use": "bedrock", "region": "eu-central-1"},
    ],
)
def test_a_backends_card_holds_for_its_models(rest: dict[str, str]) -> None:
    """Field by field, for those that say something of their own, and for those that are not listed."""
    models = {"a": {"card": {"precision": "bf16"}}, "b": None}
    spec = {**rest, "models": models, "card": {"precision": "fp8", "engine": "vllm"}}
    facts = build("backend", spec, where="backends.x").facts()
    assert Card(precision="bf16", engine="vllm") == facts.models["a"].card
    assert Card(precision="fp8", engine="vllm") == facts.models["b"].card.over(None)
