"""What an Ollama server says of its models, and what is made of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from backends._listed_card import ListedCard
from backends._ollama_models import OllamaModels
from gateway.facts import ModelFacts
from gateway.ports import Origin

UNSAID = ModelFacts(capabilities=frozenset({"json_mode", "tools", "vision", "suffix", "audio"}))
SECOND_NS = 1_000_000_000


class Server:
    """What it says, and how often it was asked about each model."""

    def __init__(self) -> None:
        self.models: list[dict[str, Any]] = [
            {"name": "qwen3:latest", "digest": "d1"},
            {"name": "llava:7b", "digest": "d2"},
        ]
        self.loaded: list[dict[str, Any]] = []
        self.shown: dict[str, Any] = {
            "details": {"quantization_level": "Q4_K_M"},
            "capabilities": ["completion", "tools", "thinking"],
        }
        self.asked: list[str] = []
        self.status = 200
        self.unshown = ""

    async def respond(self, request: Any, conversation: Any) -> None:
        """Tells it."""
        if request.path == "/api/show":
            self.asked.append(request.json["model"])
        said = {"/api/tags": {"models": self.models}, "/api/ps": {"models": self.loaded}, "/api/show": self.shown}
        broken = request.path == "/api/show" and request.json["model"] == self.unshown
        await conversation.answer(json.dumps(said[request.path]).encode(), status=500 if broken else self.status)


@pytest.fixture
def server() -> Server:
    """One with two models, none of them loaded."""
    return Server()


@pytest.fixture
async def follow(server: Server, serve: Any, hand_clock: Any) -> AsyncIterator[Callable[..., Any]]:
    """Has a look at the server's models, on a clock that the test turns."""
    async with serve(server.respond) as upstream:
        opened = []

        async def look(unsaid: ModelFacts = UNSAID, window_tokens: int = 0) -> OllamaModels:
            changes: list[int] = []
            models = OllamaModels(unsaid, lambda: changes.append(1), window_tokens=window_tokens)
            origin = Origin(
                base_url=upstream.url.removesuffix("/v1"),
                headers={"authorization": "Bearer k"},
                connect_timeout_s=1.0,
                keep_alive_s=1.0,
                max_connections=1,
            )
            models.follow("local", origin, hand_clock, every_s=30.0)
            opened.append(models)
            await hand_clock.asleep.wait()
            return models

        yield look
        for models in opened:
            await models.close()


async def again(clock: Any) -> None:
    """Half a minute later it has been asked again."""
    clock.asleep.clear()
    clock.advance(30.0)
    await clock.asleep.wait()


async def test_models_are_what_they_say(follow: Any, server: Server) -> None:
    """What each can do, how its weights are stored; the tag of the latest is left out."""
    models = await follow()
    assert ["qwen3", "llava:7b"] == list(models.told)
    facts = models.told["qwen3"]
    assert ({"json_mode", "tools"}, None) == (facts.capabilities, facts.context_tokens)
    assert ("q4_k_m", "ollama") == (facts.card.precision, facts.card.engine)
    assert ["qwen3:latest", "llava:7b"] == server.asked


@pytest.mark.parametrize(
    ("shown", "capabilities", "precision"),
    [
        ({}, UNSAID.capabilities, ""),
        ({"capabilities": ["completion", "vision", "insert"]}, {"json_mode", "vision", "suffix"}, ""),
        ({"details": {"quantization_level": "unknown"}}, UNSAID.capabilities, ""),
        ({"details": {"quantization_level": "odd words"}, "capabilities": 5}, UNSAID.capabilities, ""),
        ({"details": {"quantization_level": "MXFP4"}}, UNSAID.capabilities, "mxfp4"),
    ],
)
async def test_what_is_not_said_is_not_known(
    follow: Any, server: Server, shown: Any, capabilities: Any, precision: str
) -> None:
    """Then it holds what holds of every model."""
    server.shown = shown
    facts = (await follow()).told["qwen3"]
    assert (capabilities, precision) == (facts.capabilities, facts.card.precision)


async def test_the_operators_card_goes_before(follow: Any) -> None:
    """Field by field."""
    models = await follow(ModelFacts(card=ListedCard(engine="ollama on gpu-7")))
    assert ("ollama on gpu-7", "q4_k_m") == (models.told["qwen3"].card.engine, models.told["qwen3"].card.precision)


async def test_the_window_is_what_is_loaded(follow: Any, server: Server, hand_clock: Any) -> None:
    """It is not known before, unless the operator chooses it."""
    server.loaded = [{"name": "qwen3:latest", "context_length": 16384}]
    models = await follow()
    assert (16384, None) == (models.told["qwen3"].context_tokens, models.told["llava:7b"].context_tokens)
    hand_clock.asleep.clear()
    chosen = await follow(window_tokens=8192)
    assert (8192, 8192) == tuple(facts.context_tokens for facts in chosen.told.values())


async def test_a_model_is_described_again_where_it_is_another(follow: Any, server: Server, hand_clock: Any) -> None:
    """By its digest; one that is gone is gone."""
    models = await follow()
    server.asked.clear()
    await again(hand_clock)
    assert [] == server.asked
    server.models = [{"name": "qwen3:latest", "digest": "d9"}]
    await again(hand_clock)
    assert (["qwen3:latest"], ["qwen3"]) == (server.asked, list(models.told))


async def test_a_model_that_is_not_loaded_has_to_be(follow: Any, server: Server, hand_clock: Any) -> None:
    """Which takes as long as it took the last time; as soon as it answers it is there."""
    server.loaded = [{"name": "qwen3:latest"}]
    models = await follow()
    models.answered("qwen3:latest", 6 * SECOND_NS)
    models.answered("qwen3", SECOND_NS // 100)  # it was there
    assert 0.0 == models.told["qwen3"].load_s
    server.loaded = []
    await again(hand_clock)
    assert (6.0, 0.0) == (models.told["qwen3"].load_s, models.told["llava:7b"].load_s)
    models.answered("qwen3", 0)
    assert 0.0 == models.told["qwen3"].load_s


async def test_a_model_that_cannot_be_shown_is_there_all_the_same(follow: Any, server: Server, hand_clock: Any) -> None:
    """It holds of it what holds of every model, until it can."""
    server.unshown = "llava:7b"
    models = await follow()
    assert ({"json_mode", "tools"}, UNSAID.capabilities) == tuple(it.capabilities for it in models.told.values())
    server.unshown = ""
    await again(hand_clock)
    assert {"json_mode", "tools"} == models.told["llava:7b"].capabilities


@pytest.mark.parametrize("wrong", ["status", "json"])
async def test_a_server_that_does_not_say_is_left_alone(
    follow: Any, server: Server, hand_clock: Any, wrong: str
) -> None:
    """What was known is still taken to be so, and it is asked again."""
    models = await follow()
    known = models.told
    if wrong == "status":
        server.status = 503
    else:
        server.models = "nonsense"
    await again(hand_clock)
    assert (known if wrong == "status" else {}) == models.told
    server.status, server.models = 200, [{"name": "qwen3", "digest": "d1"}]
    await again(hand_clock)
    assert ["qwen3"] == list(models.told)


async def test_closing_twice_is_closing_once(follow: Any) -> None:
    """And nobody asks any more."""
    models = await follow()
    assert 1 == _asking()
    await models.close()
    assert 0 == _asking()
    await models.close()


def _asking() -> int:
    """How many tasks ask a server."""
    return sum(task.get_name() == "headrace-ollama-local" for task in asyncio.all_tasks())
