"""Features are numbers that mean the same in every process."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from policies.classify._features import drift_features, features
from policies.classify._packed import repeated
from policies.classify._quantities import measure
from policies.classify._word_numbers import word_numbers

Make = Callable[..., Any]

_PRINT = """
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.conversation import Message
from policies.classify._features import features
from policies.classify._quantities import measure
from policies.classify._word_numbers import word_numbers
arrival = Arrival(id="", operation=Operation.CHAT, tenant="", received_s=0, received_unix_s=0,
                  trace=TraceContext(trace_id="", span_id=""))
turns = tuple(Message(role=role, content="Grüße, 世界: a b c") for role in ("system", "user", "assistant", "user"))
request = ChatRequest(arrival=arrival, model="m", messages=turns, max_tokens=9, needs=frozenset({"tools", "vision"}))
seen = measure(request)
print(sorted(features(request, seen)), word_numbers(seen.words))
"""


def _features(request: Any) -> list[int]:
    seen = measure(request)
    return [*features(request, seen), *word_numbers(seen.words).and_each(repeated(2**32 - 1))]


def test_another_process_names_them_alike() -> None:
    """Python salts the hashes of texts, not those of numbers: what was learned can be stored."""
    outputs = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        outputs.add(
            subprocess.run([sys.executable, "-c", _PRINT], env=environment, check=True, capture_output=True).stdout
        )
    assert 1 == len(outputs)


@given(texts=st.lists(st.text(max_size=900), min_size=1, max_size=5), cap=st.none() | st.integers(0, 10**9))
def test_they_fit_in_32_bits_and_are_few(make_request: Make, texts: list[str], cap: int | None) -> None:
    """Whatever is written."""
    found = _features(make_request(*texts, max_tokens=cap))
    assert all(0 <= feature < 2**32 for feature in found)
    assert 5 < len(found) <= 256


@given(turns=st.integers(1, 10**6), mean=st.floats(-2.9, 2.9), last=st.floats(-2.9, 2.9), more=st.floats(1, 2))
def test_how_a_conversation_went_makes_three_more(turns: int, mean: float, last: float, more: float) -> None:
    """Other drifts, other features."""
    found = drift_features(turns, mean, last)
    assert 3 == len({feature for feature in found if 0 <= feature < 2**32})
    assert found[0] != drift_features(turns, mean + more, last)[0]


def test_what_differs_in_a_request_differs_in_its_features(make_request: Make) -> None:
    """Words, their order, settings, tools, the limit, the turns before."""
    variants = [
        make_request("tell me all"),
        make_request("me tell all"),
        make_request("tell me all", stream=True),
        make_request("tell me all", needs=frozenset({"tools"})),
        make_request("tell me all", max_tokens=100),
        make_request("hi", "short", "tell me all"),
        make_request("hi", "long " * 500, "tell me all"),
        make_request("hi", "code ```", "tell me all"),
    ]
    assert len(variants) == len({tuple(sorted(_features(request))) for request in variants})
