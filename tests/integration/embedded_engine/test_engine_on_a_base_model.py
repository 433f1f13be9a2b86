"""The engine on a second real model: another architecture, another vocabulary, no chat template, windowed attention."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import NoChatTemplate
from embedded_engine.messages import ChatMessage, Generate
from embedded_engine.models import default_model_dir
from embedded_engine.pull import PullFailed, pull_model
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.draft import Draft
from embedded_engine.speculative import Speculative
from tests.unit.embedded_engine.toy import Answers, run

pytestmark = pytest.mark.model

_TEXT = "A mill needs water, wind or oxen. A mill needs a miller. A mill needs corn. " * 4 + "A mill needs"


@pytest.fixture(scope="module")
def gemma() -> Iterator[Engine]:
    """Gemma 3 270M, as it is published for local use."""
    try:
        model = pull_model("gemma3-270m:q4_k_m", default_model_dir(), say=print, progress=lambda _done, _total: None)
    except PullFailed as error:
        pytest.skip(f"the second model cannot be pulled: {error}")
    engine = Engine(EngineSettings(model_path=model.path, context_tokens=512, slots=2, threads=1))
    yield engine
    engine.close()


def _ask(engine: Engine, number: int, **fields: Any) -> Answers:
    return run(engine, Generate(id=number, **{"temperature": 0, "max_tokens": 20, **fields}))


def test_it_goes_on_with_a_text(gemma: Engine) -> None:
    """Weights, tokenizer and positions are what they should be; a conversation is refused, since it knows none."""
    text = "Berlin is the capital of Germany. Paris is the capital of France. Rome is the capital of"
    assert " Italy" == _ask(gemma, 1, text=text, max_tokens=1).text()
    with pytest.raises(NoChatTemplate):
        gemma.prepare(Generate(id=2, messages=(ChatMessage(role="user", content="Hello"),)))


def test_what_it_remembers_and_what_is_drafted_change_no_word(gemma: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read anew, restored, and with drafts: one answer, ties aside, which strict requests settle."""
    plain = Speculative(enabled=False)
    strict = Speculative(exactness="strict")
    first = _ask(gemma, 1, text=_TEXT, speculative=plain, scope="first", logprobs=0)
    again = _ask(gemma, 2, text=_TEXT, speculative=plain, scope="first")
    known = [entry.chosen.token for entry in first.logprobs[1, 0]]

    def plan(drafts: Sequence[Draft], *, most: Sequence[int], **_: Any) -> list[tuple[int, ...]]:
        """Of three tokens the last is wrong, whatever drafts cost on this machine."""
        after = [known[len(draft.output) : len(draft.output) + 2] for draft in drafts]
        return [(*tokens, 17)[:limit] for tokens, limit in zip(after, most, strict=True)]

    monkeypatch.setattr(gemma._speculator, "plan", plan)
    drafted = _ask(gemma, 3, text=_TEXT, speculative=strict, scope="second")
    assert 0 == first.done[1, 0].measured.cached_tokens
    assert again.done[2, 0].measured.cached_tokens > 50
    assert first.text(1) == again.text(2) == drafted.text(3)
