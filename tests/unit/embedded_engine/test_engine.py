import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from embedded_engine.engine import Engine
from embedded_engine.errors import ContextLengthExceeded, InvalidRequest, ModelNotFound, QueueFull
from embedded_engine.measured import Measured
from embedded_engine.messages import ChatMessage, Done, Failed, Generate, Text
from embedded_engine.settings import EngineSettings
from tests.unit.embedded_engine.toy import ToyKernels, run

END = 257

MakeEngine = Callable[..., Engine]
RunAll = Callable[..., Any]


def _ask(number: int = 1, text: str = "?", **fields: Any) -> Generate:
    return Generate(**{"id": number, "text": text, "temperature": 0, "max_tokens": 64, **fields})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(1, 3), st.sampled_from([0.0, 0.8])),
        min_size=1,
        max_size=6,
    ),
    st.integers(4, 40),
)
def test_an_answer_does_not_depend_on_who_runs_beside_it(
    shapes: list[tuple[int, int, int, float]], step_tokens: int
) -> None:
    """Prompt length, seed and parameters decide, not slots, steps or neighbours."""

    def engine(**changes: int) -> Engine:
        values = {"context_tokens": 128, "threads": 1, "slots": 4, "step_tokens": 128, **changes}
        return Engine(EngineSettings(model_path="toy", **values), ToyKernels())

    requests = [
        _ask(number, "p" * length, max_tokens=tokens, n=n, temperature=temperature, seed=number)
        for number, (length, tokens, n, temperature) in enumerate(shapes)
    ]
    together = run(engine(step_tokens=step_tokens), *requests)
    for request in requests:
        alone = run(engine(), request)
        for choice in range(request.n):
            key = (request.id, choice)
            assert alone.text(*key) == together.text(*key)
            assert replace(alone.done[key], measured=Measured()) == replace(together.done[key], measured=Measured())


def test_choices_share_the_prompt(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Three choices cost one prefill, and the first is the one a single choice would give."""
    engine = make_engine()
    three = run_all(engine, _ask(text="hello there", n=3, temperature=1, seed=5, max_tokens=9))
    assert len("hello there") == engine.prefilled_tokens
    one = run_all(make_engine(), _ask(text="hello there", temperature=1, seed=5, max_tokens=9))
    assert one.text() == three.text(1, 0)
    assert 3 == len({three.text(1, choice) for choice in range(3)})


def test_streams_go_on_while_a_long_prompt_is_read(make_engine: MakeEngine) -> None:
    """Every step that reads a part of the prompt also makes a token for the running choice."""
    engine = make_engine(step_tokens=8, speculation=False)
    engine.submit(engine.prepare(_ask(1, max_tokens=100)))
    engine.step()
    engine.submit(engine.prepare(_ask(2, "x" * 100, max_tokens=1)))
    while engine.prefilled_tokens < 1 + 100:
        drawn, prefilled = engine.drawn_tokens, engine.prefilled_tokens
        engine.step()
        assert drawn + 1 <= engine.drawn_tokens
        assert 0 < engine.prefilled_tokens - prefilled < 8


def test_cancelling_frees_the_slot_within_one_step_at_any_moment(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Fifty requests dropped at random moments, queued, reading or answering.

    The engine then serves as if new.
    """
    dice = random.Random(4)  # noqa: S311 - moments, not secrets
    engine = make_engine(slots=2, queue_limit=4)
    for number in range(50):
        engine.submit(engine.prepare(_ask(number, "x" * dice.randint(1, 90), n=dice.randint(1, 2), max_tokens=20)))
        for _ in range(dice.randint(0, 6)):
            engine.step()
        engine.cancel(number)
        engine.cancel(number)
        assert all(event.id != number for event in engine.step())
        assert (0, 0, 2 * 128) == (engine.running, engine.queued, engine.free_kv_tokens)
    assert run_all(make_engine(), _ask(99, "hi")).text(99) == run_all(engine, _ask(99, "hi")).text(99)


def test_cancelling_a_queued_request_leaves_its_neighbours_alone(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Nobody else is dropped."""
    engine = make_engine(slots=1)
    for number in range(3):
        engine.submit(engine.prepare(_ask(number, max_tokens=3)))
    engine.cancel(1)
    engine.cancel(77)
    assert {(0, 0), (2, 0)} == set(run_all(engine).done)


def test_a_full_queue_says_so(make_engine: MakeEngine) -> None:
    """One runs, two wait, the next is refused; nobody waits without bound."""
    engine = make_engine(slots=1, queue_limit=2)
    for number in range(3):
        engine.submit(engine.prepare(_ask(number)))
    with pytest.raises(QueueFull):
        engine.submit(engine.prepare(_ask(3)))
    engine.cancel(0)
    engine.submit(engine.prepare(_ask(4)))
    assert (1, 2) == (engine.running, engine.queued)


def test_a_request_waits_until_the_cells_it_may_need_are_free(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Slots alone do not admit it; its answer is whole all the same."""
    engine = make_engine(slots=4, lanes=1, context_tokens=64, kv_tokens=64)
    requests = [_ask(number, "abc"[number] * 20, max_tokens=20, seed=1) for number in range(3)]
    for request in requests:
        engine.submit(engine.prepare(request))
    engine.step()
    assert (2, 1) == (engine.running, engine.queued)
    assert {20} == {done.completion_tokens for done in run_all(engine).done.values()}


class _Clock:
    """Stands until it is moved."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_whose_time_is_over_is_told_so_queued_or_running() -> None:
    """A clear error, nothing more of it, and its slot is free; who has no deadline waits as long as it takes."""
    clock = _Clock()
    engine = Engine(EngineSettings(model_path="toy", slots=1, threads=1, context_tokens=128), ToyKernels(), clock=clock)
    requests = [_ask(1, deadline_s=5.0), _ask(2, deadline_s=2.0), _ask(3, max_tokens=4), _ask(4, deadline_s=60.0)]
    for request in requests:
        engine.submit(engine.prepare(request))
    assert {1: 0} == {event.id: event.choice for event in engine.step() if isinstance(event, Text)}
    clock.now_s += 2
    assert {2: "deadline_exceeded"} == {event.id: event.code for event in engine.step() if isinstance(event, Failed)}
    clock.now_s += 3
    events = engine.step()
    assert {1: "deadline_exceeded"} == {event.id: event.code for event in events if isinstance(event, Failed)}
    assert 1 not in engine.requests
    assert {(3, 0), (4, 0)} == set(run(engine).done)


def test_an_answer_says_how_long_it_took() -> None:
    """In the queue, over its prompt, and over its tokens."""
    clock = _Clock()
    settings = EngineSettings(
        model_path="toy", slots=1, threads=1, context_tokens=128, step_tokens=4, speculation=False
    )
    engine, done = Engine(settings, ToyKernels(), clock=clock), {}
    for number in (1, 2):
        engine.submit(engine.prepare(_ask(number, "x" * 8 + str(number), max_tokens=5)))
    while engine.busy:
        clock.now_s += 1
        done |= {event.id: event for event in engine.step() if isinstance(event, Done)}
    times = [(one.measured.queue_s, one.measured.prefill_s, one.measured.decode_s) for one in done.values()]
    assert (0.0, 3.0, 4.0) == times[0]
    assert (8.0, 4.0) == (times[1][0], times[1][2])


def test_who_says_that_its_answer_is_short_goes_first(make_engine: MakeEngine) -> None:
    """Among those that wait."""
    engine = make_engine(slots=1)
    for number, predicted_tokens in [(1, None), (2, 60), (3, 2)]:
        engine.submit(engine.prepare(_ask(number, predicted_tokens=predicted_tokens, max_tokens=60)))
    order = []
    while engine.busy:
        order += [event.id for event in engine.step() if isinstance(event, Done)]
    assert [1, 3, 2] == order


def test_hundreds_may_wait_and_each_is_answered(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Three hundred in the queue of four slots."""
    engine = make_engine(queue_limit=400)
    answers = run_all(engine, *(_ask(number, str(number), max_tokens=3) for number in range(300)))
    assert {(number, 0) for number in range(300)} == set(answers.done)


def test_a_failed_batch_fails_the_requests_in_it_and_nobody_else(
    make_engine: MakeEngine, toy: Callable[..., Any], run_all: RunAll
) -> None:
    """The next request finds free slots and clean cells."""
    kernels = toy()
    engine = make_engine(kernels, slots=2)
    for number in range(3):
        engine.submit(engine.prepare(_ask(number, max_tokens=4)))
    engine.step()
    kernels.fails = lambda _: True
    failed = {event.id: event.code for event in engine.step()}
    assert {0: "decode_failed", 1: "decode_failed"} == failed
    kernels.fails = lambda _: False
    assert run_all(make_engine(), _ask(2, max_tokens=4)).text(2) == run_all(engine).text(2)


def test_numbers_that_are_none_fail_one_request_and_not_the_loop(
    make_engine: MakeEngine, toy: Callable[..., Any], run_all: RunAll
) -> None:
    """NaN in the logits of one sequence leaves the sequence beside it alone."""
    kernels = toy()
    engine = make_engine(kernels)
    kernels.not_numbers = {0}
    answers = run_all(engine, _ask(1), _ask(2, max_tokens=5))
    assert "numerics" == answers.failed[1].code
    assert 5 == answers.done[2, 0].completion_tokens
    assert 0 == engine.running


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, bad) for field in ("temperature", "top_p", "min_p") for bad in (float("nan"), float("inf"), -0.1)]
    + [("top_p", 0.0), ("top_p", 1.1), ("min_p", 1.1), ("top_k", -1), ("max_tokens", 0), ("max_tokens", -3)]
    + [("n", 0), ("n", 5), ("stop", ("",)), ("stop", ("x",) * 65), ("stop", ("x" * 1025,))],
)
def test_a_field_out_of_range_is_refused_by_name_while_others_run(
    make_engine: MakeEngine, run_all: RunAll, field: str, value: object
) -> None:
    """NaN passes no one-sided check here."""
    engine = make_engine()
    engine.submit(engine.prepare(_ask(1, max_tokens=3)))
    with pytest.raises(InvalidRequest, match=field) as caught:
        engine.prepare(_ask(2, **{field: value}))
    assert field == caught.value.param
    assert 3 == run_all(engine).done[1, 0].completion_tokens


@pytest.mark.parametrize(
    "prompt",
    [
        {},
        {"text": "a", "token_ids": (1,)},
        {"text": ""},
        {"token_ids": ()},
        {"token_ids": (261,)},
        {"token_ids": (-1,)},
    ],
)
def test_a_prompt_is_one_and_not_empty(make_engine: MakeEngine, prompt: dict[str, Any]) -> None:
    """No prompt, two prompts, an empty one, unknown tokens."""
    with pytest.raises(InvalidRequest):
        make_engine().prepare(Generate(**{"id": 1, **prompt}))


@pytest.mark.parametrize("slots", [1, 4])
def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers(make_engine: MakeEngine, slots: int) -> None:
    """The limit is the slot's, at the limit and far beyond it, before any slot is taken."""
    engine = make_engine(slots=slots, context_tokens=64)
    for length, named in [(64, "64"), (65, "65"), (192, "at least 96")]:
        with pytest.raises(ContextLengthExceeded, match=rf"64 tokens, but the prompt has {named} tokens"):
            engine.prepare(_ask(text="x" * length))
    assert "context_length_exceeded" == ContextLengthExceeded.code
    assert 0 == engine.running


def test_an_answer_that_fills_the_context_ends_for_length(make_engine: MakeEngine, run_all: RunAll) -> None:
    """A prompt one short of the context gets one token; without max_tokens the room that is left is the bound."""
    engine = make_engine(context_tokens=64)
    for length, left in [(63, 1), (40, 24)]:
        done = run_all(engine, _ask(text="x" * length, max_tokens=None)).done[1, 0]
        assert ("length", left) == (done.reason, done.completion_tokens)
        done = run_all(engine, _ask(text="x" * length, max_tokens=10_000)).done[1, 0]
        assert ("length", left) == (done.reason, done.completion_tokens)


def test_the_model_may_end_its_turn(make_engine: MakeEngine, answering: Callable[..., Any], run_all: RunAll) -> None:
    """The end token is neither shown nor counted."""
    answers = run_all(make_engine(answering(b"hello")), _ask())
    assert ("hello", "stop", 5) == (answers.text(), answers.done[1, 0].reason, answers.done[1, 0].completion_tokens)
    assert 5 == answers.tokens[1, 0]


@pytest.mark.parametrize(
    ("stop", "max_tokens", "shown", "reason", "counted"),
    [
        (("\nUser:",), 64, "Hi there", "stop", 14),  # seven tokens make the stop string up
        (("there", "re\n"), 64, "Hi ", "stop", 8),  # overlapping ones: the first that is complete
        (("\nUser: x",), 64, "Hi there\nUser: y", "stop", 16),  # a proper prefix, and the text goes on
        (("yes",), 64, "Hi there\nUser: y", "stop", 16),  # a proper prefix at the end of the turn is released
        (("\nUser:",), 11, "Hi there\nUs", "length", 11),  # and one at max_tokens
    ],
)
def test_no_part_of_a_stop_string_is_shown_and_nothing_else_is_lost(
    make_engine: MakeEngine,
    answering: Callable[..., Any],
    run_all: RunAll,
    stop: tuple[str, ...],
    max_tokens: int,
    shown: str,
    reason: str,
    counted: int,
) -> None:
    """Streamed text equals whole text; completion_tokens counts every token drawn, the stop string's included."""
    engine = make_engine(answering(b"Hi there\nUser: y"))
    answers = run_all(engine, _ask(stop=stop, max_tokens=max_tokens))
    done = answers.done[1, 0]
    assert (shown, reason, counted) == (answers.text(), done.reason, done.completion_tokens)
    assert all(len(text) > 0 for text in answers.texts[1, 0])


@pytest.mark.parametrize(
    ("answer", "max_tokens", "stop", "shown"),
    [
        ("a😀b".encode(), 64, (), "a😀b"),
        (b"a\x80b", 64, (), "a\ufffdb"),
        (b"a\xc0\xafb", 64, (), "a\ufffd\ufffdb"),
        ("a😀".encode(), 3, (), "a"),  # cut within the character: the half is dropped
        (b"a\xff\nb", 64, ("\n",), "a\ufffd"),
    ],
)
def test_only_whole_characters_are_shown(
    make_engine: MakeEngine,
    answering: Callable[..., Any],
    run_all: RunAll,
    answer: bytes,
    max_tokens: int,
    stop: tuple[str, ...],
    shown: str,
) -> None:
    """Halves wait, invalid bytes are replaced once, a cut half is dropped, and the stream equals the whole."""
    answers = run_all(make_engine(answering(answer)), _ask(max_tokens=max_tokens, stop=stop))
    assert shown == answers.text()
    assert not any("\ufffd" in text for text in answers.texts[1, 0] if "\ufffd" not in shown)


def test_a_conversation_is_rendered_and_answered(make_engine: MakeEngine, run_all: RunAll) -> None:
    """The accepted event counts the template's tokens too."""
    engine = make_engine()
    request = engine.prepare(Generate(id=1, messages=(ChatMessage(role="user", content="hi"),), max_tokens=2))
    accepted = engine.submit(request)
    assert len("?user\nhi??assistant\n") == accepted.prompt_tokens
    assert (1, 0) in run_all(engine).done


def test_an_engine_tells_what_it_loaded(make_engine: MakeEngine) -> None:
    """The model's facts, the settings as they came out, and the self-test."""
    ready = make_engine(slots=3, context_tokens=100).ready
    assert ("toy.gguf", "toy", 100, 300, 3) == (
        ready.model,
        ready.kernels,
        ready.context_tokens,
        ready.kv_tokens,
        ready.slots,
    )
    assert (0.0, 0, 31) == (
        ready.self_test.max_logit_error,
        ready.self_test.argmax_flips,
        ready.self_test.micro_batch_rows,
    )


def test_a_missing_file_is_named() -> None:
    """Before any library is loaded."""
    with pytest.raises(ModelNotFound, match="nowhere"):
        Engine(EngineSettings(model_path="nowhere.gguf"))
