import math
from collections.abc import Sequence

import numpy as np
import pytest

from embedded_engine.answer_plan import AnswerPlan
from embedded_engine.intake import Prepared
from embedded_engine.messages import Echo
from embedded_engine.prompt_echo import PromptEcho
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import BOS, ToyKernels

_VOCABULARY = Vocabulary(ToyKernels())


def _row(position: int) -> np.ndarray:
    """At each position the token of the position's number is sure."""
    row = np.zeros(261, np.float32)
    row[position] = 50
    return row


def _told(prompt: Sequence[int], ends: Sequence[int], logprobs: int | None, *, told_space: bool = False) -> list[Echo]:
    request = Prepared(
        id=4,
        prompt=tuple(prompt),
        max_tokens=0,
        sampling=Sampling(seed=1),
        n=1,
        plan=AnswerPlan(vocabulary=_VOCABULARY),
        logprobs=logprobs,
        echo=True,
        told_space=told_space,
    )
    echo = PromptEcho(request, _VOCABULARY)
    return [event for end in ends for event in echo.read(end, _row)]


@pytest.mark.parametrize("ends", [[6], [1, 2, 3, 4, 5, 6], [2, 5, 6], [3, 3, 2, 6, 6]])
def test_each_token_has_the_row_before_it_however_the_prompt_is_cut(ends: list[int]) -> None:
    """The first has none; reading a part again tells nothing again."""
    prompt = [0, 0, 1, 9, 3, 4]  # as the rows expect, but for the 9
    entries = [entry for event in _told(prompt, ends, 1) for entry in event.logprobs]
    assert prompt == [entry.chosen.token for entry in entries]
    assert (None, ()) == (entries[0].chosen.logprob, entries[0].top)
    assert [0, 1, 2, 3, 4] == [entry.top[0].token for entry in entries[1:]]
    expected = [0.0, 0.0, -50.0, 0.0, 0.0]
    assert all(
        math.isclose(value, entry.chosen.logprob or 0, abs_tol=1e-4)
        for value, entry in zip(expected, entries[1:], strict=True)
    )


@pytest.mark.parametrize("logprobs", [None, 0, 3])
def test_the_text_comes_in_whole_characters_and_the_bytes_join_to_it(logprobs: int | None) -> None:
    """A character of four tokens comes with the last of them; control tokens add nothing."""
    prompt = [BOS, *"a😀b".encode()]
    events = _told(prompt, range(1, len(prompt) + 1), logprobs)
    assert "a😀b" == "".join(event.text for event in events)
    assert "\ufffd" not in "".join(event.text for event in events)
    entries = [entry for event in events for entry in event.logprobs]
    assert (len(prompt) if logprobs is not None else 0) == len(entries)
    if entries:
        assert ("<|bos|>", None) == (entries[0].chosen.text, entries[0].chosen.piece)
        assert "a😀b" == b"".join(entry.chosen.piece or b"" for entry in entries).decode()


def test_a_space_that_the_tokenizer_added_is_not_told() -> None:
    """The prompt comes back as it was given."""
    assert "hi" == "".join(event.text for event in _told(list(b" hi"), [3], None, told_space=True))
