from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.characters import Characters
from embedded_engine.engine import Engine
from embedded_engine.likelihoods import LOWEST_LOGPROB
from embedded_engine.messages import Done, Generate, Text, TokenLogprob
from tests.unit.embedded_engine.toy import TURN

MakeEngine = Callable[..., Engine]

_REPETITIVE = "so it was and so it was and so it was and "


def _ask(**fields: Any) -> Generate:
    return Generate(**{"id": 1, "text": _REPETITIVE, "max_tokens": 24, "seed": 3, "logprobs": 2, **fields})


class _Answer:
    """One choice's events."""

    def __init__(self, events: list[Any], choice: int = 0) -> None:
        self.texts = [event for event in events if isinstance(event, Text) and event.choice == choice]
        (self.done,) = [event for event in events if isinstance(event, Done) and event.choice == choice]
        self.text = "".join(event.text for event in self.texts)
        self.entries: list[TokenLogprob] = [entry for event in self.texts for entry in event.logprobs]
        self.bytes = b"".join(entry.chosen.piece or b"" for entry in self.entries)


def _events(engine: Engine, request: Generate) -> list[Any]:
    engine.submit(engine.prepare(request))
    events: list[Any] = []
    while engine.busy:
        events += engine.step()
    return events


@pytest.mark.parametrize("alternatives", [0, 1, 5, 20])
@pytest.mark.parametrize(
    "changes", [{"temperature": 0}, {"temperature": 1}, {"top_p": 0.3}, {"logit_bias": ((ord(" "), -100.0),)}, {"n": 3}]
)
def test_they_are_those_of_the_emitted_tokens_with_and_without_drafts(
    make_engine: MakeEngine, alternatives: int, changes: dict[str, Any]
) -> None:
    """As many as tokens, the same whether drafted or not, finite, and their bytes join to the text."""
    request = _ask(logprobs=alternatives, **changes)
    drafting, plain = (_events(make_engine(speculation=speculation), request) for speculation in (True, False))
    for choice in range(request.n):
        answer = _Answer(plain, choice)
        assert answer.entries == _Answer(drafting, choice).entries
        assert answer.done.completion_tokens == len(answer.entries) > 0
        characters = Characters()
        assert answer.text == characters.feed(answer.bytes)
        assert {alternatives} == {len(entry.top) for entry in answer.entries}
        values = [likelihood.logprob for entry in answer.entries for likelihood in (entry.chosen, *entry.top)]
        assert all(value is not None and LOWEST_LOGPROB <= value <= 0 for value in values)


def test_nothing_is_told_that_was_not_asked_for(make_engine: MakeEngine) -> None:
    """It would cost a look at the whole row."""
    assert [] == _Answer(_events(make_engine(), _ask(logprobs=None))).entries


@pytest.mark.parametrize(
    ("said", "stop", "shown"),
    [
        (b"Hi there\nUser: y", "\nUser:", b"Hi there"),
        (b"Hi there\nUser: y", "there", b"Hi "),
        (b"Hi there", "Hi", b""),
        ("né né fin".encode(), "é f", "né n".encode()),
    ],
)
@pytest.mark.parametrize("speculation", [False, True])
def test_they_end_where_a_stop_string_begins(
    make_engine: MakeEngine,
    answering: Callable[..., Any],
    said: bytes,
    stop: str,
    shown: bytes,
    *,
    speculation: bool,
) -> None:
    """The tokens of the stop string are counted, and not told."""
    engine = make_engine(answering(said), speculation=speculation)
    answer = _Answer(_events(engine, _ask(text="?", stop=(stop,), temperature=0, max_tokens=64)))
    assert (shown, shown.decode()) == (answer.bytes, answer.text)
    assert answer.done.completion_tokens > len(answer.entries)


@pytest.mark.parametrize(
    ("said", "max_tokens", "shown"),
    [
        ("a😀b".encode(), 64, "a😀b"),
        ("a😀b".encode(), 3, "a"),  # cut within the character: its halves are counted and told, and not shown
        (b"a\x80b", 64, "a\ufffdb"),
        (b"a\xc0\xafb", 64, "a\ufffd\ufffdb"),
    ],
)
def test_halves_of_characters_have_entries_too(
    make_engine: MakeEngine,
    answering: Callable[..., Any],
    said: bytes,
    max_tokens: int,
    shown: str,
) -> None:
    """One a token; read by the rule for text, their bytes are the text."""
    answer = _Answer(_events(make_engine(answering(said)), _ask(text="?", temperature=0, max_tokens=max_tokens)))
    assert answer.done.completion_tokens == len(answer.entries)
    assert (said[:max_tokens], shown) == (answer.bytes, answer.text)
    assert all(event.text for event in answer.texts[:-1])  # no entry runs ahead of its text


def test_a_control_token_has_its_name_and_no_bytes(make_engine: MakeEngine, answering: Callable[..., Any]) -> None:
    """It adds nothing to the text."""
    engine = make_engine(answering([ord("a"), TURN, ord("b")]))
    answer = _Answer(_events(engine, _ask(text="?", temperature=0, logprobs=0)))
    spelled = [(entry.chosen.text, entry.chosen.piece) for entry in answer.entries]
    assert [("a", b"a"), ("<|turn|>", None), ("b", b"b")] == spelled
    assert "ab" == answer.text
