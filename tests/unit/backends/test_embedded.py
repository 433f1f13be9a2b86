from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backends.embedded import Embedded
from gateway.errors import ConfigurationError
from gateway.facts import Needs
from gateway.price import Price
from gateway.rules.plugins import build
from gateway.types import Operation
from gateway.wire.passages import PASSED


def _build(**parameters: Any) -> Embedded:
    return build("backend", {"use": "embedded", **parameters}, where="backends.x")


def test_what_it_is_before_it_is_started() -> None:
    """Before it starts it is down, and what it can do is known all the same."""
    facts = _build(slots=3, context_tokens=512).facts()
    model = facts.models["smollm2-135m-instruct:q8_0"]
    assert (3, "the engine is not started") == (facts.concurrency, facts.down)
    assert frozenset(Operation) - PASSED == facts.operations
    assert 512 == model.context_tokens
    assert model.carries is not None
    assert {"tools", "json_schema", "logprobs"} <= (model.capabilities or frozenset())
    assert "vision" not in (model.capabilities or ())


def test_it_costs_nothing_unless_somebody_says_so() -> None:
    """The machine is paid for already: a price of zero, which is not the same as none."""
    assert (
        Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
        == next(iter(_build().facts().models.values())).price
    )


def test_a_price_of_ones_own() -> None:
    """A given price is taken."""
    given = {"input_usd_per_mtok": 0.01, "output_usd_per_mtok": 0.02}
    price = next(iter(_build(price=given).facts().models.values())).price
    assert price is not None
    assert (Decimal("0.01"), Decimal("0.02")) == (price.input_usd_per_mtok, price.output_usd_per_mtok)


def test_an_hourly_price_waits_for_the_speed() -> None:
    """What an hour costs says nothing of a token until the engine has measured itself."""
    assert next(iter(_build(usd_per_hour=1.2).facts().models.values())).price is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [("/models/private/x.gguf", "x.gguf"), ("hf:org/repo/x.gguf", "hf:org/repo/x.gguf"), ("gemma3-270m:q4_k_m",) * 2],
)
def test_the_name_that_clients_see(model: str, expected: str) -> None:
    """A model is called as it was asked for, and a file by its name alone."""
    assert [expected] == list(_build(model=model).facts().models)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"slots": 0}, "slots must be at least 1"),
        ({"context_tokens": -1}, "must not be negative"),
        ({"context_tokens": 1}, "0 or at least 8"),
        ({"kernels": "cuda"}, "'ik_llama' or 'llama_cpp'"),
        ({"usd_per_hour": -1}, "must not be negative"),
        ({"usd_per_hour": 1, "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}, "exclude each other"),
        ({"healthy_s": 0}, "`healthy_s` must be more than zero"),
        ({"start_timeout_s": 0}, "`start_timeout_s` must be more than zero"),
        ({"stalled_after_s": 0.5}, "`stalled_after_s` must be at least 1"),
        ({"modle": "x"}, "did you mean `model`"),
    ],
)
def test_a_mistake_in_the_file_is_told(parameters: dict[str, Any], words: str) -> None:
    """A parameter out of range, or two that exclude each other, are found when the file is read."""
    with pytest.raises(ConfigurationError, match=words):
        _build(**parameters)


@pytest.mark.parametrize(
    ("text", "words"), [("{{ broken", "is broken"), (None, "cannot be read"), ("\udcff", "cannot be read")]
)
def test_a_chat_template_that_cannot_be_used_is_told(tmp_path: Path, text: str | None, words: str) -> None:
    """Before anything is started, with the parameter's name; one that can be used is needed and nothing is said."""
    template = tmp_path / "chat.jinja"
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    template.write_text("{{ messages }}", encoding="utf-8")
    assert Needs() == _build(model=str(model), chat_template=str(template)).needs(tmp_path)
    template.unlink()
    if text is not None:
        template.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match=words) as caught:
        _build(chat_template=str(template)).needs(tmp_path)
    assert "chat_template" == caught.value.where


async def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, surroundings: Any) -> None:
    """Without the engine's libraries the gateway says which extra to install."""
    backend = _build()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"headrace\[engine\]"):
        await backend.start("local", surroundings())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("smollm2-135m-instruct:q8_0", "is not in the cache: run `headrace model pull smollm2-135m-instruct:q8_0`"),
        ("hf:org/repo/x.gguf", "is not in the cache: run `headrace model pull hf:org/repo/x.gguf`"),
        ("/nowhere/x.gguf", "there is no model x.gguf: the log says"),
        ("/nowhere/x", "there is no model x: the log says"),
        ("smollm", "there is no model smollm: the log says"),
    ],
)
async def test_a_model_that_is_not_there(
    surroundings: Any, hand_clock: Any, caplog: pytest.LogCaptureFixture, model: str, words: str
) -> None:
    """The backend is down and says what to do; it looks again after a while, and ends when it is closed.

    What it says names no path: clients read it, and whoever asks whether the gateway is ready. The log does, once.
    """
    backend = _build(model=model)
    await backend.start("local", surroundings(clock=hand_clock))
    for looks in (1, 2):
        await hand_clock.asleep.wait()
        assert words in (backend.facts().down or "")
        assert "/nowhere" not in (backend.facts().down or "")
        assert backend.facts().back_in_s is None
        assert looks == len(hand_clock.slept_s)
        hand_clock.asleep.clear()
        hand_clock.advance(60.0)
    await backend.close()
    assert "the engine is closed" == backend.facts().down
    (told,) = caplog.messages
    assert model in told


async def test_when_it_is_expected_to_be_ready(surroundings: Any, hand_clock: Any) -> None:
    """A start is expected to take its time, one that is late as much again, within reason; a closed one never ends."""
    backend = _build(restart_max_s=20)
    assert backend.facts().back_in_s is None
    await backend.start("local", surroundings(clock=hand_clock))
    expected = []
    for seconds in (0.0, 0.5, 8.5, 100.0):
        hand_clock.advance(seconds)
        expected.append(backend.facts().back_in_s)
    assert [1.0, 1.0, 8.0, 20.0] == expected
    await backend.close()
    assert backend.facts().back_in_s is None
