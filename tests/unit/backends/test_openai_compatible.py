from collections.abc import Callable
from typing import Any

import pytest

from backends._models import CAPABILITIES
from backends.openai_compatible import OpenAICompatible
from gateway.errors import ConfigurationError
from gateway.ports import Surroundings
from gateway.rules.plugins import build
from gateway.types import Operation
from gateway.wire.passages import PASSED

OWN = "http://127.0.0.1:8000/v1"


def _build(**parameters: Any) -> OpenAICompatible:
    return build("backend", {"use": "openai_compatible", **parameters}, where="backends.x")


def test_a_preset_alone_is_enough() -> None:
    """A provider that we know needs no more than its name."""
    facts = _build(preset="groq", models=["m"]).facts()
    own = {Operation.CHAT, Operation.TRANSCRIPTION, Operation.TRANSLATION, Operation.SPEECH}
    assert own == facts.operations - facts.translates
    assert CAPABILITIES - {"audio", "logprobs", "logit_bias", "many", "tool_grammar"} == facts.models["m"].capabilities
    assert facts.models["m"].carries is None


def test_an_address_alone_is_enough() -> None:
    """Of a server that we do not know everything that is written is possible; the rest it has to say."""
    facts = _build(base_url=OWN, models=["m"]).facts()
    assert frozenset(Operation) - PASSED == facts.operations
    assert (None, None) == (facts.models["m"].capabilities, facts.models["m"].carries)


def test_parameters_go_before_the_preset() -> None:
    """What the file says overrides what the preset knows."""
    backend = _build(preset="vllm", base_url="https://gpu.example/v1/", operations=["chat"], concurrency=4)
    assert "https://gpu.example/v1" == backend._address
    facts = backend.facts()
    assert (frozenset({Operation.CHAT}), 4) == (facts.operations - facts.translates, facts.concurrency)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "`base_url` or `preset` must be given"),
        ({"preset": "opnai"}, "did you mean `openai`"),
        ({"base_url": "ftp://a/v1"}, "must start with http"),
        ({"base_url": "127.0.0.1:8000/v1"}, "must start with http"),
        ({"base_url": "http:///v1"}, "must start with http"),
        ({"base_url": "http://user:pw@a/v1"}, "must have no user, query or fragment"),
        ({"base_url": "http://a/v1?key=k"}, "must have no user, query or fragment"),
        ({"base_url": OWN, "concurrency": 0}, "`concurrency` must be at least 1"),
        ({"base_url": OWN, "connect_timeout_s": 0}, "`connect_timeout_s` must be more than zero"),
        ({"base_url": OWN, "headers": {"host": "x"}}, "written by the gateway itself"),
        ({"preset": "openai", "headers": {"Authorization": "x"}}, "already made from `api_key_env`"),
        ({"base_url": OWN, "headers": {"x-a": {"enf": "X"}}}, "headers"),
        ({"base_url": OWN, "operations": ["chats"]}, "operations"),
        ({"base_url": OWN, "api_key": "sk-1"}, "unknown parameter"),
    ],
)
def test_a_mistake_in_the_file_is_told(parameters: dict[str, Any], words: str) -> None:
    """Every mistake is found when the file is read, and says what is wrong."""
    with pytest.raises(ConfigurationError, match=words):
        _build(**parameters)


async def test_a_missing_key_is_told_at_start(surroundings: Callable[..., Surroundings]) -> None:
    """The preset names the variable; when it is not set, the gateway does not start without a word."""
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        await _build(preset="openai").start("x", surroundings())


async def test_certificates_that_are_not_there(surroundings: Callable[..., Surroundings]) -> None:
    """A path to certificates that does not exist is told at start."""
    with pytest.raises(ConfigurationError, match="no file of CA certificates"):
        await _build(base_url="https://a/v1", verify="/nowhere/ca.pem").start("x", surroundings())
