import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.replay.trace import TraceOptions, TraceRequest, coarseness_ms, count_rows, has_words, read_trace
from gateway.replay.trace_rows import read_row

Write = Callable[..., Path]


def _row(timestamp: Any, input_length: Any = 600, output_length: Any = 10, **fields: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "input_length": input_length, "output_length": output_length, **fields}


def _read(path: Path, **options: Any) -> list[TraceRequest]:
    return list(read_trace(path, TraceOptions(**options)))


def test_a_row_is_a_request_at_its_time(trace_file: Write) -> None:
    """Times count from the first row; blocks that it does not name are nobody else's."""
    first, second = _read(trace_file([_row(5000, 1000, hash_ids=[7]), _row(6500, 512, hash_ids=[7], model="m")]))
    assert (0.0, 1000, 10, "trace") == (
        first.arrived_s,
        first.prompt_tokens,
        first.output_tokens,
        first.request.model,
    )
    assert (1.5, (7,), "m") == (second.arrived_s, second.blocks, second.request.model)
    assert (2, 7, True) == (len(first.blocks), first.blocks[0], first.blocks[1] < 0)


def test_load_lets_the_same_requests_come_sooner(trace_file: Write) -> None:
    """Twice the load, half the time."""
    path = trace_file([_row(second * 100) for second in range(10)])
    assert [one.arrived_s / 2 for one in _read(path)] == [one.arrived_s for one in _read(path, load=2.0)]


def test_rows_of_a_coarse_clock_are_spread_over_its_step_and_stay_in_order(trace_file: Write) -> None:
    """As in Mooncake's conversation trace, whose clock ticks every three seconds."""
    path = trace_file([_row(3000 * (n // 20)) for n in range(200)])
    assert 3000.0 == coarseness_ms(path)
    arrivals_s = [one.arrived_s for one in _read(path)]
    assert arrivals_s == sorted(arrivals_s)
    assert len(set(arrivals_s)) == 200
    assert 0.0 <= arrivals_s[0] < 3.0 < arrivals_s[-1] < 30.0
    assert arrivals_s == [one.arrived_s for one in _read(path)]
    assert arrivals_s != [one.arrived_s for one in _read(path, seed=2)]


def test_a_fine_clock_is_left_alone(trace_file: Write) -> None:
    """Unless the spread is asked for."""
    path = trace_file([_row(ms) for ms in (0, 40, 40, 277, 5000)])
    assert [0.0, 0.04, 0.04, 0.277, 5.0] == [one.arrived_s for one in _read(path)]
    assert len({one.arrived_s for one in _read(path, spread_ms=10.0)}) == 5


def test_rows_without_a_time_come_at_random_at_the_rate(trace_file: Write) -> None:
    """A thousand at ten a second take about a hundred seconds."""
    path = trace_file([{"input_length": 10, "output_length": 1} for _ in range(1000)])
    assert 90 < _read(path, rate_per_s=10.0)[-1].arrived_s < 110


def test_prompts_are_read_as_the_gateway_reads_a_body(trace_file: Write) -> None:
    """What two prompts have in common they share as blocks; tokens are given, or a quarter of the bytes."""
    system = {"role": "system", "content": "Be brief. " * 500}
    path = trace_file(
        [
            {"messages": [system, {"role": "user", "content": f"Question {n}"}], "output_length": 5, "max_tokens": 9}
            for n in range(2)
        ]
        + [{"prompt": "Once upon a time", "output_length": 5, "input_length": 4}]
    )
    assert has_words(path)
    one, other, completion = _read(path)
    assert (2, 9) == (len(one.request.messages), one.request.max_tokens)
    assert len(one.blocks) == 2
    assert one.blocks == other.blocks
    assert one.prompt_tokens == one.request.prompt_bytes // 4
    assert ("Once upon a time", 4, ()) == (completion.request.prompt, completion.prompt_tokens, completion.blocks)


def test_blocks_become_texts_that_share_what_the_blocks_share(trace_file: Write) -> None:
    """Four bytes a token, so that the gateway cuts and hashes what it would have."""
    path = trace_file([_row(0, 1500, hash_ids=[1, 2, 3]), _row(1, 1536, hash_ids=[1, 2, 9])])
    assert not has_words(path)
    one, other = (str(request.request.prompt) for request in _read(path))
    shared = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
    assert (6000, 6144, 4096) == (len(one), len(other), shared)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("nonsense\n", "line 2: this is no row of a trace"),
        ('{"timestamp": 1}\n', "line 2: this is no row of a trace: Object missing required field `output_length`"),
        (_row(1, 0), "line 2: `input_length` must be from 1 to 10,000,000 tokens, and is 0"),
        (_row(1, -5), "line 2: `input_length` must be from 1"),
        (_row(1, 10**18), "line 2: `input_length` must be from 1 to 10,000,000 tokens"),
        (_row(1, 1e300), "line 2: this is no row of a trace"),
        (_row(1, 10, -1), "line 2: `output_length` must be from 0 to 10,000,000 tokens, and is -1"),
        (_row(-1), "line 2: `timestamp` must be milliseconds from 0 to 1e+15, and is -1"),
        (_row(1e17), "line 2: `timestamp` must be milliseconds"),
        ({"timestamp": 1, "output_length": 3}, "line 2: it has neither `input_length`, nor a `prompt`, nor `messages`"),
        (_row(1, 600, hash_ids=[1, 2, 3]), "line 2: 3 `hash_ids` are more than the 2 blocks of 600 tokens"),
        (_row(1, 600, hash_ids=["a"]), "line 2: this is no row of a trace"),
        ({"messages": [{"role": "user"}], "output_length": 1}, "line 2: this is no request"),
        ({"messages": "hello", "output_length": 1}, "line 2: this is no request"),
        (_row(2, 10), "line 2: `timestamp` 2 comes after 3 (sort the trace by its timestamps)"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(trace_file: Write, row: Any, words: str) -> None:
    """And its field, in one sentence."""
    path = trace_file([_row(3 if "comes after" in words else 0), row])
    with pytest.raises(ConfigurationError) as refused:
        _read(path)
    assert str(refused.value).startswith(f"{path}: {words}")


def test_an_answer_of_no_tokens_ends_with_its_first(trace_file: Write) -> None:
    """Real traces have such rows: nothing was written, but the prompt was read."""
    assert 1 == _read(trace_file([_row(0, 10, 0)]))[0].output_tokens


def test_an_empty_trace_and_one_that_is_not_there_are_refused(trace_file: Write, tmp_path: Path) -> None:
    """Blank lines are no rows."""
    with pytest.raises(ConfigurationError, match="the trace has no rows"):
        count_rows(trace_file(["\n", "  \n"]))
    with pytest.raises(ConfigurationError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        count_rows(tmp_path / "none.jsonl")
    assert 2 == count_rows(trace_file([_row(0), "\n", _row(1)]))


def test_a_pipe_is_no_trace(tmp_path: Path) -> None:
    """It could be read once only, and is told so before anybody waits for its other end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="it must be a file, and is a pipe"):
        count_rows(pipe)


def test_a_limit_reads_the_beginning_only(trace_file: Write) -> None:
    """What comes after it is not even looked at."""
    path = trace_file([_row(0), _row(1), "nonsense\n"])
    assert (2, 2) == (len(_read(path, limit=2)), count_rows(path, 2))


def test_reading_holds_no_more_than_the_spread(trace_file: Write) -> None:
    """A request comes out as soon as no later row can overtake it: no trace is too long for the memory."""
    path = trace_file([_row(n * 1000) for n in range(50)] + ["nonsense\n"])
    reader = read_trace(path, TraceOptions(spread_ms=2000.0))
    assert 48 <= len(list(itertools.islice(reader, 48)))


@given(line=st.binary(max_size=60))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    """It is a row, or a sentence that names the line."""
    said = ""
    try:
        read_row(line, file="f", number=7)
    except ConfigurationError as error:
        said = str(error)
    assert said == "" or said.startswith("f: line 7: ")
