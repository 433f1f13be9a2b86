"""The engine in its own process, spoken with over the real socket."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from embedded_engine.client import EngineDied, EngineProcess, EngineStartFailed, ProtocolError, RequestFailed
from embedded_engine.messages import Accepted, ChatMessage, CountTokens, Done, Embed, Generate, Text
from embedded_engine.settings import EngineSettings

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]


def _settings(path: Path | str) -> EngineSettings:
    return EngineSettings(model_path=str(path), context_tokens=512, slots=2, queue_limit=2, threads=1)


async def _collect(engine: EngineProcess, request: Generate) -> tuple[str, list[Done]]:
    text, done = "", []
    async with aclosing(engine.generate(request)) as generation:
        async for event in generation:
            match event:
                case Text():
                    text += event.text
                case Done():
                    done.append(event)
    return text, done


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(default_model_path: Path) -> AsyncIterator[EngineProcess]:
    """One process for the tests that leave it alive."""
    engine = await EngineProcess.start(_settings(default_model_path))
    ready = await engine.ready()
    assert ("Q8_0", 512, 2) == (ready.quantisation, ready.context_tokens, ready.slots)
    yield engine
    await engine.close()
    assert not engine.alive


async def test_a_request_goes_through(engine: EngineProcess) -> None:
    """Accepted, text in pieces, done."""
    request = Generate(messages=(ChatMessage(role="user", content="Hello!"),), temperature=0, max_tokens=8)
    events = [event async for event in engine.generate(request)]
    assert isinstance(events[0], Accepted)
    done = events[-1]
    assert isinstance(done, Done)
    assert (events[0].id, 0, "length", 8) == (done.id, done.choice, done.reason, done.completion_tokens)
    assert len([event for event in events if isinstance(event, Text)]) > 1


async def test_several_at_once_each_get_their_own(engine: EngineProcess) -> None:
    """More than there are slots; the rest waits in the queue."""
    request = Generate(text="One, two, three,", temperature=0, max_tokens=6)
    answers = await asyncio.gather(*(_collect(engine, request) for _ in range(4)))
    assert {6} == {done[0].completion_tokens for _, done in answers}


async def test_a_full_queue_and_a_bad_field_are_told_by_code(engine: EngineProcess) -> None:
    """And they harm nobody."""
    request = Generate(text="One, two,", max_tokens=200, seed=1)
    generations = [engine.generate(request) for _ in range(6)]
    first = await asyncio.gather(*map(anext, generations), return_exceptions=True)
    for generation in generations:
        generation.cancel()
    assert {"queue_full"} == {event.code for event in first if isinstance(event, RequestFailed)}
    assert 2 == sum(isinstance(event, RequestFailed) for event in first)
    with pytest.raises(RequestFailed) as caught:
        await _collect(engine, Generate(text="x", top_p=float("nan")))
    assert ("invalid_request", "top_p") == (caught.value.code, caught.value.param)
    with pytest.raises(RequestFailed) as caught:
        await _collect(engine, Generate(text="word " * 600))
    assert "context_length_exceeded" == caught.value.code
    with pytest.raises(ProtocolError):
        engine.generate(Generate(text="\ud800"))
    assert engine.alive


async def test_leaving_early_frees_the_slot(engine: EngineProcess) -> None:
    """The engine says itself that nobody runs any more; what it then serves is served at once."""
    for _ in range(3):
        async with aclosing(engine.generate(Generate(text="Once upon a time", max_tokens=400, seed=1))) as generation:
            async for event in generation:
                if isinstance(event, Text):
                    break
    text, done = await _collect(engine, Generate(text="One, two, three,", temperature=0, max_tokens=4))
    assert text
    assert 4 == done[0].completion_tokens
    assert engine.facts is not None
    assert 4 > engine.facts.running


async def test_tokens_are_counted(engine: EngineProcess) -> None:
    """Of a text, and of a conversation with its template."""
    assert 2 == await engine.count_tokens(CountTokens(text="hello world"))
    messages = (ChatMessage(role="user", content="hello world"),)
    assert 20 < await engine.count_tokens(CountTokens(messages=messages))
    with pytest.raises(RequestFailed) as caught:
        await engine.count_tokens(CountTokens(messages=()))
    assert "invalid_messages" == caught.value.code


async def test_a_request_is_checked_and_takes_no_place(engine: EngineProcess) -> None:
    """It is counted as it would be read, or refused for what is wrong with it."""
    assert 2 == await engine.check(Generate(text="hello world"))
    assert 3 == await engine.check(Generate(token_ids=(1, 2, 3)))
    for bad, code in ((Generate(text=""), "invalid_request"), (Generate(text="x " * 600), "context_length_exceeded")):
        with pytest.raises(RequestFailed) as caught:
            await engine.check(bad)
        assert (code, "prompt") == (caught.value.code, caught.value.param)


async def test_who_is_watched_and_lives_is_left_alone(engine: EngineProcess, eventually: Any) -> None:
    """Idle or busy, for longer than the watch has patience, it gives signs of life."""
    watching = asyncio.create_task(engine.keep_watch(0.5))
    turns = engine._turns_seen
    await eventually(lambda: engine._turns_seen > turns + 4)
    async with aclosing(engine.generate(Generate(text="Once", max_tokens=400, seed=1))):
        turns = engine._turns_seen
        await eventually(lambda: engine._turns_seen > turns + 2)
    assert not watching.done()
    watching.cancel()


async def test_an_interrupt_of_the_terminal_does_not_end_it(engine: EngineProcess) -> None:
    """Ctrl-C reaches the whole group; the gateway wants its streams to finish."""
    os.kill(engine.pid, signal.SIGINT)
    assert 2 == await engine.count_tokens(CountTokens(text="hello world"))


async def test_when_the_process_dies_every_request_hears_of_it_at_once(default_model_path: Path) -> None:
    """No request hangs, later ones are refused, and the exit is told."""
    engine = await EngineProcess.start(_settings(default_model_path))
    await engine.ready()
    running = [engine.generate(Generate(text="Once", max_tokens=300, seed=n)) for n in range(2)]
    for generation in running:
        assert isinstance(await anext(generation), Accepted)
    os.kill(engine.pid, signal.SIGKILL)
    for generation in running:
        with pytest.raises(EngineDied):
            async for _ in generation:
                pass
    assert -signal.SIGKILL == await engine.wait_exit()
    assert not engine.alive
    with pytest.raises(EngineDied):
        engine.generate(Generate(text="Once"))
    with pytest.raises(EngineDied):
        await engine.count_tokens(CountTokens(text="Once"))
    await engine.close()


async def test_after_a_death_under_load_the_next_one_knows_nothing(default_model_path: Path) -> None:
    """Whoever ran or waited hears of it; a new process answers the same, with its cache cold."""
    request = Generate(text="A mill stands on the river. " * 12, temperature=0, max_tokens=6)
    answers = []
    for life in range(2):
        engine = await EngineProcess.start(_settings(default_model_path))
        await engine.ready()
        text, (done,) = await _collect(engine, request)
        answers.append(text)
        assert 0 == done.measured.cached_tokens
        assert (await _collect(engine, request))[1][0].measured.cached_tokens > 50
        if life == 0:
            crowd = [engine.generate(Generate(text=f"Once {n}", max_tokens=300, seed=n)) for n in range(4)]
            for generation in crowd:
                assert isinstance(await anext(generation), Accepted)
            os.kill(engine.pid, signal.SIGKILL)
            for generation in crowd:
                with pytest.raises(EngineDied):
                    async for _ in generation:
                        pass
        await engine.close()
    assert answers[0] == answers[1]


async def test_an_engine_that_stands_still_is_ended(default_model_path: Path, stop_process: Any) -> None:
    """A process stopped in its tracks is killed by its watch, even if all who asked it have given up meanwhile."""
    engine = await EngineProcess.start(_settings(default_model_path))
    await engine.ready()
    stop_process(engine.pid)
    given_up, waiting = engine.generate(Generate(text="Once")), engine.generate(Generate(text="Once"))
    given_up.cancel()
    await engine.keep_watch(0.1)
    with pytest.raises(EngineDied, match="stood still"):
        await anext(waiting)
    assert not engine.alive
    assert -signal.SIGKILL == await engine.wait_exit()
    await engine.close()


async def test_an_engine_that_does_not_end_politely_is_ended_by_force(
    default_model_path: Path, stop_process: Any
) -> None:
    """As one that is stopped does not."""
    engine = await EngineProcess.start(_settings(default_model_path))
    await engine.ready()
    stop_process(engine.pid)
    generation = engine.generate(Generate(text="Once"))
    await engine.close(grace_s=0.05)
    with pytest.raises(EngineDied, match="closed"):
        await anext(generation)
    assert -signal.SIGKILL == await engine.wait_exit()


async def test_it_ends_when_its_parent_goes_away(default_model_path: Path) -> None:
    """Also in the middle of an answer."""
    engine = await EngineProcess.start(_settings(default_model_path))
    await engine.ready()
    generation = engine.generate(Generate(text="Once", max_tokens=400))
    assert isinstance(await anext(generation), Accepted)
    engine._transport.abort()
    assert 0 == await engine.wait_exit()
    await engine.close()


async def test_a_missing_model_is_said_at_start(tmp_path: Path) -> None:
    """With a code that tells a supervisor not to try again."""
    engine = await EngineProcess.start(_settings(tmp_path / "none.gguf"))
    with pytest.raises(EngineStartFailed, match=r"none\.gguf") as caught:
        await engine.ready()
    assert "model_not_found" == caught.value.code
    assert 1 == await engine.wait_exit()
    await engine.close()


async def test_a_file_that_is_no_model_is_said_at_start(tmp_path: Path) -> None:
    """In the kernels' words, on standard error, and by code."""
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\0" * 64)
    engine = await EngineProcess.start(_settings(tmp_path / "bad.gguf"))
    with pytest.raises(EngineStartFailed) as caught:
        await engine.ready()
    assert "load_failed" == caught.value.code
    await engine.close()


async def test_texts_become_vectors(engine: EngineProcess) -> None:
    """In order, with their tokens counted, while an answer is streamed; a bad request is told by code."""
    answer = asyncio.create_task(_collect(engine, Generate(text="One, two,", max_tokens=12, ignore_eos=True, seed=1)))
    vectors, prompt_tokens = await engine.embed(Embed(texts=("a cat", "a dog", "a cat")))
    assert [4 * 576] * 3 == list(map(len, vectors))
    assert vectors[0] == vectors[2] != vectors[1]
    assert 6 == prompt_tokens
    _, (done,) = await answer
    assert 12 == done.completion_tokens
    with pytest.raises(RequestFailed) as caught:
        await engine.embed(Embed(texts=("word " * 600,)))
    assert ("context_length_exceeded", "input") == (caught.value.code, caught.value.param)


async def test_who_no_longer_wants_vectors_frees_the_engine(engine: EngineProcess) -> None:
    """A thousand texts are not read for nobody."""
    asked = asyncio.create_task(engine.embed(Embed(texts=("some words " * 30,) * 1000)))
    await engine.embed(Embed(texts=("a cat",)))  # the other one is being read by now
    asked.cancel()
    vectors, _ = await engine.embed(Embed(texts=("a dog",)))
    assert 1 == len(vectors)
    assert asked.cancelled()
