from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.errors import (
    ClientGone,
    InvalidRequest,
    UpstreamFailed,
    UpstreamTimeout,
)
from gateway.fleet.flight import Flight
from gateway.price import Usage


def test_a_snapshot_has_what_the_backend_says_and_what_is_under_way(scene: Any) -> None:
    """One candidate a target, with the facts of its model and the counters of this moment."""
    scene.fly("a")
    second = scene.fly("a")
    second.first_token(scene.clock.now_s() + 1)
    found = scene.look()
    assert ["a", "b"] == list(found)
    a, b = found["a"], found["b"]
    assert (4096, frozenset({"tools"}), None) == (a.context_tokens, a.capabilities, a.concurrency)
    assert (None, None, 3) == (b.context_tokens, b.capabilities, b.concurrency)
    assert (2, 5000, 200) == (a.in_flight, a.queued_prefill_tokens, a.running_output_tokens)
    assert (0, 0, 0) == (b.in_flight, b.queued_prefill_tokens, b.running_output_tokens)


@pytest.mark.parametrize("backend", ["a", "b"])
def test_a_target_alone_is_seen_as_among_others(scene: Any, backend: str) -> None:
    """It is looked at without lists: only that nobody else can be warm is another fact then."""
    for name in ("a", "b", "b"):
        flight = scene.fly(name)
        flight.first_token(scene.clock.now_s() + 1)
    flight.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=scene.clock.now_s() + 2)
    route = scene.world.routes[0]
    alone = replace(route, targets=tuple(target for target in route.targets if target.backend == backend))
    (candidate,) = scene.fleet.snapshot(alone, scene.ctx, scene.world.backends)
    among_others = scene.look()[backend]
    assert among_others.warm_tokens > 0
    assert structs.replace(among_others, warm_elsewhere_tokens=0) == candidate


@given(data=st.data())
def test_counters_return_to_zero_however_flights_interleave(
    make_scene: Callable[..., Any], data: st.DataObject
) -> None:
    """Whatever the order of dispatches, first tokens (none, one, several, late) and ends, nothing is left over."""
    from gateway.clock import SystemClock

    scene = make_scene(SystemClock())
    flying: list[Flight] = []
    landed: list[Flight] = []
    errors = st.sampled_from([None, UpstreamFailed("x"), ClientGone("x"), UpstreamTimeout("x"), InvalidRequest("x")])
    for step in data.draw(st.lists(st.sampled_from(["dispatch", "first", "late", "land"]), max_size=30)):
        if step == "dispatch":
            flying.append(scene.fly(data.draw(st.sampled_from("ab"))))
        elif step == "late" and landed:
            data.draw(st.sampled_from(landed)).first_token(5000.0)
        elif step == "first" and flying:
            data.draw(st.sampled_from(flying)).first_token(data.draw(st.floats(0, 5000)))
        elif step == "land" and flying:
            flight = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            flight.landed(usage=None, decode_s=None, error=data.draw(errors), now_s=5000.0)
            landed.append(flight)
    for flight in flying:
        flight.landed(usage=None, decode_s=None, error=None, now_s=5000.0)
    for candidate in scene.look().values():
        assert (0, 0, 0) == (candidate.in_flight, candidate.queued_prefill_tokens, candidate.running_output_tokens)


def test_speeds_are_learned_from_first_tokens_and_ends(scene: Any) -> None:
    """A backend's speeds move towards what was seen there; who has not been tried is taken for one of its kind."""
    for _ in range(200):
        flight = scene.fly("b")
        scene.clock.now += 0.5
        flight.first_token(scene.clock.now_s())
        scene.clock.now += 1.0
        flight.landed(usage=Usage(output_tokens=101), decode_s=1.0, error=None, now_s=scene.clock.now_s())
        scene.fleet.prefixes.clear(scene.standing("b").cache)
    found = scene.look()
    assert pytest.approx(5000 / 0.5, rel=0.1) == found["b"].prefill_tokens_per_s
    assert pytest.approx(0.01, rel=0.1) == found["b"].seconds_per_token
    assert pytest.approx(found["b"].prefill_tokens_per_s) == found["a"].prefill_tokens_per_s
    assert pytest.approx(found["b"].seconds_per_token) == found["a"].seconds_per_token


def test_a_backend_that_is_slower_than_its_kind_is_known_for_it(scene: Any) -> None:
    """Four times as slow: nobody is taken for alike who is not."""
    for _ in range(100):
        for backend, read_s in (("a", 0.5), ("b", 2.0)):
            flight = scene.fly(backend)
            scene.clock.now += read_s
            flight.first_token(scene.clock.now_s())
            scene.clock.now += 1.0
            flight.landed(usage=None, decode_s=None, error=None, now_s=scene.clock.now_s())
            scene.fleet.prefixes.clear(scene.standing(backend).cache)
    found = scene.look()
    assert pytest.approx(5000 / 0.5, rel=0.1) == found["a"].prefill_tokens_per_s
    assert pytest.approx(5000 / 2.0, rel=0.1) == found["b"].prefill_tokens_per_s


@pytest.mark.parametrize(
    ("usage", "decode_s"),
    [(None, 1.0), (Usage(output_tokens=1000, estimated=True), 1.0), (Usage(output_tokens=1000), None)],
)
def test_guesses_teach_nothing(scene: Any, usage: Usage | None, decode_s: float | None) -> None:
    """Counts of ours and times that were not seen are no measurement."""
    before = scene.look()["a"].seconds_per_token
    scene.fly().landed(usage=usage, decode_s=decode_s, error=None, now_s=scene.clock.now_s())
    assert before == scene.look()["a"].seconds_per_token


def test_what_a_backend_measures_itself_goes_first(scene: Any) -> None:
    """The engine knows its speed better than we do."""
    engine = scene.world.backends["a"]
    measured = replace(engine.facts(), prefill_tokens_per_s=123.0, seconds_per_token=0.5)
    vars(engine)["_facts"] = measured
    assert (123.0, 0.5) == (scene.look()["a"].prefill_tokens_per_s, scene.look()["a"].seconds_per_token)


def test_a_prompt_is_warm_where_it_was_sent_and_for_its_tenant_alone(
    scene: Any, make_context: Any, make_request: Any
) -> None:
    """From its dispatch on: whoever comes next is read after it, and finds what it has left."""
    scene.fly("a")
    found = scene.look()
    assert (4999, 0) == (found["a"].warm_tokens, found["b"].warm_tokens)  # its last token makes the first of the answer
    assert (0, 4999) == (found["a"].warm_elsewhere_tokens, found["b"].warm_elsewhere_tokens)
    prompt = scene.ctx.request.messages[0].content
    stranger = make_context(make_request(prompt, tenant="other", request_id="req-2"), prompt_tokens=5000)
    assert 0 == scene.look(stranger)["a"].warm_tokens


def test_a_whole_answers_prompt_is_warm_at_its_end(scene: Any) -> None:
    """Its first token is never seen; that it came says that the prompt was read."""
    scene.fly("a").landed(usage=None, decode_s=None, error=None, now_s=scene.clock.now_s())
    assert scene.look()["a"].warm_tokens > 4000


def test_an_attempt_that_fails_before_its_first_token_leaves_nothing_warm(scene: Any) -> None:
    """Who knows what it has read; what was warm before stays so."""
    scene.fail(UpstreamFailed("x"))
    assert 0 == scene.look()["a"].warm_tokens
    scene.fly("a").first_token(scene.clock.now_s())
    scene.fail(UpstreamFailed("x"))
    assert 4999 == scene.look()["a"].warm_tokens


def test_warm_tokens_are_not_waited_for_again(scene: Any) -> None:
    """A prompt that is warm queues only what is fresh."""
    scene.fly("a").first_token(scene.clock.now_s())
    warm_tokens = scene.look()["a"].warm_tokens
    scene.fly("a")
    assert 5000 - warm_tokens == scene.look()["a"].queued_prefill_tokens


def test_models_that_nobody_lists_share_one_record(
    make_scene: Callable[..., Any], make_context: Any, make_request: Any, clock: Any
) -> None:
    """Clients choose their names, and must not choose how much we remember."""
    text = "backends: {a: {use: openai_compatible, base_url: 'http://127.0.0.1:1/v1', models: []}}"
    scene = make_scene(clock, f"{text}\nroutes: {{r: {{models: ['*'], targets: [a]}}}}")
    facts = scene.world.backends["a"].facts()
    for number in range(1000):
        ctx = make_context(make_request("hi", model=f"model-{number}", request_id=f"req-{number}"))
        assert f"model-{number}" == scene.look(ctx)["a"].model
        scene.fly("a", ctx)
    assert 1 == len(scene.fleet._standings)
    assert (1000, 1000) == (scene.look()["a"].in_flight, scene.fleet.standing("a", "x", facts).work.in_flight)


@pytest.mark.parametrize(
    ("targets", "models", "asked", "served"),
    [
        ("[a/large]", "[small, large]", "anything", "large"),
        ("[a]", "[only]", "anything", "only"),
        ("[a]", "[small, large]", "large", "large"),
    ],
)
def test_the_model_is_the_targets_or_the_asked_one_or_the_only_one(
    make_scene: Callable[..., Any],
    make_context: Any,
    make_request: Any,
    clock: Any,
    targets: str,
    models: str,
    asked: str,
    served: str,
) -> None:
    """The name that goes upstream is one that the backend knows."""
    names = "[small, large]" if served == "large" and targets == "[a]" else "['*']"
    policy = f"backends: {{a: {{use: fake, models: {models}}}}}\nroutes: {{r: {{models: {names}, targets: {targets}}}}}"
    scene = make_scene(clock, policy, make_context(make_request("hi", model=asked)))
    assert served == scene.look()["a"].model


def test_a_backend_that_says_it_is_down_is_down(scene: Any) -> None:
    """Its own word goes before ours; until when, it says only where it knows."""
    backend = scene.world.backends["a"]
    vars(backend)["_facts"] = replace(backend.facts(), down="starting")
    assert ("starting", None) == (scene.look()["a"].down, scene.look()["a"].retry_in_s)
    vars(backend)["_facts"] = replace(backend.facts(), back_in_s=1.5)
    assert ("starting", 1.5) == (scene.look()["a"].down, scene.look()["a"].retry_in_s)


def test_what_others_have_under_way_on_a_shared_engine_counts(make_scene: Any, clock: Any, monkeypatch: Any) -> None:
    """It tells how much it does for everybody; our own requests are not counted twice."""
    scene = make_scene(clock)
    idle = scene.look()["b"]
    backend = scene.world.backends["b"]
    busy = replace(backend.facts(), in_flight=5)
    monkeypatch.setattr(type(backend), "facts", lambda _: busy)
    seen = scene.look()["b"]
    assert 5 == seen.in_flight
    assert seen.seconds_per_token > idle.seconds_per_token
    scene.fly("b")
    assert 5 == scene.look()["b"].in_flight
