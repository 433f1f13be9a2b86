from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import Done, Echo, Failed, Generate, Text, TokenLogprob
from tests.unit.embedded_engine.toy import ToyKernels

MakeEngine = Callable[..., Engine]

_PROMPT = "the water 😀 runs and the water runs"


def _ask(**fields: Any) -> Generate:
    return Generate(**{"id": 1, "text": _PROMPT, "max_tokens": 6, "seed": 3, "echo": True, **fields})


def _events(engine: Engine, *requests: Generate) -> list[Any]:
    for request in requests:
        engine.submit(engine.prepare(request))
    events: list[Any] = []
    while engine.busy:
        events += engine.step()
    return events


def _entries(events: list[Any], kind: type[Echo | Text]) -> list[TokenLogprob]:
    return [entry for event in events if isinstance(event, kind) for entry in event.logprobs]


@pytest.mark.parametrize("step_tokens", [4, 7, 128])
def test_a_prompt_is_told_back_before_the_answer(make_engine: MakeEngine, step_tokens: int) -> None:
    """Once for all choices, in whole characters, with one entry a token however it was read."""
    whole = _events(make_engine(step_tokens=64), _ask(logprobs=2, n=2))
    events = _events(make_engine(step_tokens=step_tokens), _ask(logprobs=2, n=2))
    kinds = [type(event) for event in events]
    assert kinds.index(Text) > max(place for place, kind in enumerate(kinds) if kind is Echo)
    assert _PROMPT == "".join(event.text for event in events if isinstance(event, Echo))
    assert not any("\ufffd" in event.text for event in events if isinstance(event, Echo))
    entries = _entries(events, Echo)
    assert _PROMPT.encode() == b"".join(entry.chosen.piece or b"" for entry in entries)
    assert [None] == [entry.chosen.logprob for entry in entries if entry.chosen.logprob is None]
    assert _entries(whole, Echo) == entries


def test_an_answer_and_its_scores_agree(make_engine: MakeEngine) -> None:
    """The tokens of an answer, sent back as a prompt, have the log-probabilities that they had."""
    said = _events(make_engine(), _ask(logprobs=1, temperature=0, max_tokens=8))
    answer = _entries(said, Text)
    prompt = (*_PROMPT.encode(), *(entry.chosen.token for entry in answer))
    scored = _entries(_events(make_engine(), _ask(text=None, token_ids=prompt, logprobs=1, max_tokens=0)), Echo)
    assert answer == scored[len(_PROMPT.encode()) :]


def test_without_a_token_to_come_nothing_is_drawn(make_engine: MakeEngine) -> None:
    """Every choice is over when the prompt is read."""
    engine = make_engine()
    events = _events(engine, _ask(logprobs=0, max_tokens=0, n=3))
    ends = [event for event in events if isinstance(event, Done)]
    assert [("length", 0)] * 3 == [(end.reason, end.completion_tokens) for end in ends]
    assert 0 == engine.drawn_tokens
    assert [] == [event for event in events if isinstance(event, Text)]
    assert len(_PROMPT.encode()) == len(_entries(events, Echo))
    with pytest.raises(InvalidRequest, match="max_tokens"):
        engine.prepare(_ask(echo=False, max_tokens=0))


def test_an_echo_without_logprobs_has_no_entries_and_computes_no_more(make_engine: MakeEngine) -> None:
    """The rows of the prompt give no logits."""
    kernels = ToyKernels()
    engine = make_engine(kernels)
    kernels.batches.clear()
    events = _events(engine, _ask(max_tokens=1))
    assert _PROMPT == "".join(event.text for event in events if isinstance(event, Echo))
    assert [] == _entries(events, Echo)
    assert 1 == sum(row.wants_logits for batch in kernels.batches for row in batch)


def test_a_prompt_that_was_read_before_is_scored_anew(make_engine: MakeEngine) -> None:
    """What a cache holds has no logits."""
    engine = make_engine()
    first = _events(engine, _ask(logprobs=1, max_tokens=2))
    again = _events(engine, _ask(id=2, logprobs=1, max_tokens=2))
    assert _entries(first, Echo) == _entries(again, Echo)
    (done,) = [event for event in again if isinstance(event, Done)]
    assert 0 == done.measured.cached_tokens


def test_an_echo_of_a_cached_prompt_is_whole(make_engine: MakeEngine) -> None:
    """Without scores its tokens may come from the cache."""
    engine = make_engine()
    for number in (1, 2):
        events = _events(engine, _ask(id=number, max_tokens=2))
        assert _PROMPT == "".join(event.text for event in events if isinstance(event, Echo))


def test_rows_that_are_no_numbers_fail_the_one_who_is_scored(make_engine: MakeEngine) -> None:
    """The others go on."""
    kernels = ToyKernels()
    engine = make_engine(kernels)
    kernels.not_numbers = {0}
    events = _events(engine, _ask(logprobs=1, max_tokens=0), _ask(id=2, logprobs=1, max_tokens=0, text="other"))
    assert {1: "numerics"} == {event.id: event.code for event in events if isinstance(event, Failed)}
    assert [2] == [event.id for event in events if isinstance(event, Done)]


def test_a_conversation_has_no_echo(make_engine: MakeEngine) -> None:
    """Its tokens are the template's too."""
    from embedded_engine.messages import ChatMessage

    turns = (ChatMessage(role="user", content="hi"),)
    with pytest.raises(InvalidRequest, match="echo"):
        make_engine().prepare(_ask(text=None, messages=turns))
