"""The embedded backend with the real model in its real process: crashes, cancels and refusals."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backends.embedded import Embedded
from gateway.errors import UpstreamFailed, UpstreamRateLimited, UpstreamRefused, UpstreamUnreachable
from gateway.types import Operation

pytestmark = pytest.mark.model

Start = Callable[..., Any]


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # facts are there to be polled; the suite's timeout bounds it
        await asyncio.sleep(0.01)


@pytest.fixture
def start(surroundings: Any, default_model_path: Path) -> Start:
    """Starts the backend and waits until it is ready."""

    @asynccontextmanager
    async def started(**parameters: Any) -> AsyncIterator[Embedded]:
        backend = Embedded(threads=1, **{"slots": 1, "context_tokens": 512, "restart_min_s": 0.01, **parameters})
        await backend.start("local", surroundings(model_dir=default_model_path.parent))
        try:
            await _until(lambda: backend.facts().down is None)
            yield backend
        finally:
            await backend.close()

    return started


async def test_what_it_knows_when_it_is_ready(start: Start) -> None:
    """Context, slots and speeds are the engine's own, and an hourly price becomes one by the token."""
    async with start(usd_per_hour=Decimal(3600)) as backend:
        facts = backend.facts()
    (model,) = facts.models.values()
    assert (1, 512) == (facts.concurrency, model.context_tokens)
    assert facts.seconds_per_token is not None
    assert facts.seconds_per_token > 0
    assert facts.prefill_tokens_per_s is not None
    assert model.price is not None
    assert float(model.price.output_usd_per_mtok) == pytest.approx(facts.seconds_per_token * 1e6)
    assert float(model.price.input_usd_per_mtok) == pytest.approx(1e6 / facts.prefill_tokens_per_s)


async def test_the_same_seed_streamed_and_whole(start: Start, make_call: Any, recording_sink: Any) -> None:
    """A stream and a whole answer of the same seed say the same, letter for letter."""
    async with start() as backend:
        texts = []
        for stream in (True, False):
            call = make_call(model=backend.model, stream=stream, max_tokens=24, seed=5, temperature=0.8)
            sink = recording_sink(call)
            await backend.send(call, sink)
            texts.append(sink.texts)
    assert texts[0] == texts[1]


async def test_an_answer_that_was_cut_off_goes_on_where_it_was(
    start: Start, make_call: Any, recording_sink: Any
) -> None:
    """Handed its first half as the assistant's last message, the model writes the second as it would have done."""
    asked = [{"role": "user", "content": "Write one sentence about the sea."}]

    async def says(messages: list[dict[str, str]], **fields: Any) -> str:
        call = make_call(model=backend.model, messages=messages, temperature=0, max_tokens=24, **fields)
        sink = recording_sink(call)
        await backend.send(call, sink)
        return str(sink.texts[0])

    async with start() as backend:
        text = await says(asked)
        half = text[: text.index(" ", len(text) // 2)]
        rest = await says([*asked, {"role": "assistant", "content": half}], continue_final_message=True)
    assert text[len(half) : len(half) + 12] == rest[:12]


async def test_several_prompts_in_one_request(start: Start, make_call: Any, recording_sink: Any) -> None:
    """Completions of several prompts are numbered prompt by prompt, and all their tokens are counted."""
    async with start(slots=2) as backend:
        call = make_call(
            Operation.COMPLETION, model=backend.model, prompt=["One", "Two"], n=2, max_tokens=3, stream=True
        )
        sink = recording_sink(call)
        finish = await backend.send(call, sink)
    assert [0, 1, 2, 3] == sorted(sink.texts)
    assert 4 * 3 == finish.usage.output_tokens


@pytest.mark.parametrize(
    ("prompts", "words"), [(["One", ""], "the prompt is empty"), (["One", "Two", "word " * 600], "512 tokens")]
)
async def test_a_later_prompt_that_cannot_be_served_is_told_before_the_first_is_answered(
    start: Start, make_call: Any, recording_sink: Any, prompts: list[str], words: str
) -> None:
    """Whoever gets a stream gets it to its end."""
    async with start() as backend:
        call = make_call(Operation.COMPLETION, model=backend.model, prompt=prompts, max_tokens=3, stream=True)
        sink = recording_sink(call)
        with pytest.raises(UpstreamRefused, match=words) as caught:
            await backend.send(call, sink)
    assert ("prompt", 400) == (caught.value.param, caught.value.http_status)
    assert sink.streamed is None


async def test_an_engine_that_stands_still_is_replaced(start: Start, make_call: Any, recording_sink: Any) -> None:
    """Even if nobody waits for it any more: it is not taken for well again, but ended and started again."""
    async with start(stalled_after_s=1.0) as backend:
        engine = backend._life.engine
        assert engine is not None
        os.kill(engine.pid, signal.SIGSTOP)
        call = make_call(model=backend.model)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.send(call, recording_sink(call)), 0.01)
        await _until(lambda: backend.facts().down is not None)
        assert "the engine is restarting" == backend.facts().down
        back_in_s = backend.facts().back_in_s
        assert back_in_s is not None
        assert 1.0 <= back_in_s < 60.0
        await _until(lambda: backend.facts().down is None)
        assert backend.facts().back_in_s is None
        assert engine.pid != backend._life.engine.pid


@pytest.mark.parametrize("shared", [False, True])
async def test_an_engine_that_does_not_become_ready_is_ended(
    surroundings: Any, default_model_path: Path, shared: bool
) -> None:
    """The start has a limit; it is tried again after a while."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        world = replace(surroundings(model_dir=default_model_path.parent), run_dir=Path(folder) if shared else None)
        backend = Embedded(threads=1, start_timeout_s=0.01, restart_min_s=30.0)
        await backend.start("local", world)
        await _until(lambda: backend.facts().down == "the engine was not ready within 0.01 s")
        assert backend.facts().back_in_s is None
        await backend.close()


async def test_a_crash_fails_the_running_requests_and_the_engine_comes_back(
    start: Start, make_call: Any, recording_sink: Any
) -> None:
    """When the process dies, running requests fail at once, readiness says so, and a new process serves again."""
    async with start() as backend:
        call = make_call(model=backend.model, stream=True, max_tokens=400)
        sink = recording_sink(call)
        sending = asyncio.ensure_future(backend.send(call, sink))
        await sink.pushed.wait()
        engine = backend._life.engine
        assert engine is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(UpstreamFailed, match="the engine died") as caught:
            await sending
        assert ("local", True) == (caught.value.backend, caught.value.retryable)
        assert "the engine is restarting" == backend.facts().down
        with pytest.raises(UpstreamUnreachable, match="restarting"):
            await backend.send(call, recording_sink(call))
        await _until(lambda: backend.facts().down is None)
        again = make_call(model=backend.model, max_tokens=2)
        assert 2 == (await backend.send(again, recording_sink(again))).usage.output_tokens


async def test_cancelling_frees_the_engines_only_slot(start: Start, make_call: Any, recording_sink: Any) -> None:
    """A cancelled answer is decoded no further: the next one has the only slot long before 400 tokens are through."""
    async with start() as backend:
        call = make_call(model=backend.model, stream=True, max_tokens=400)
        sink = recording_sink(call)
        sending = asyncio.ensure_future(backend.send(call, sink))
        await sink.pushed.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        after = make_call(model=backend.model, max_tokens=2)
        await backend.send(after, recording_sink(after))
        engine = backend._life.engine
        assert engine is not None
        await _until(lambda: engine.facts is not None and engine.facts.running == engine.facts.queued == 0)
        assert engine.facts.steps < 200


async def test_a_prompt_that_does_not_fit(start: Start, make_call: Any, recording_sink: Any) -> None:
    """The refusal blames the request, has the code that clients know, and the numbers."""
    async with start() as backend:
        call = make_call(model=backend.model, messages=[{"role": "user", "content": "word " * 600}], stream=True)
        sink = recording_sink(call)
        with pytest.raises(UpstreamRefused, match=r"512 tokens.* 6\d\d tokens") as caught:
            await backend.send(call, sink)
    assert ("context_length_exceeded", 400, "local") == (
        caught.value.upstream_code,
        caught.value.http_status,
        caught.value.backend,
    )
    assert sink.streamed is None


async def test_a_full_queue_turns_away(start: Start, make_call: Any, recording_sink: Any) -> None:
    """One request runs, none may wait: the next is told to come back, or goes elsewhere."""
    async with start(queue_limit=0) as backend:
        call = make_call(model=backend.model, stream=True, max_tokens=400)
        sink = recording_sink(call)
        sending = asyncio.ensure_future(backend.send(call, sink))
        await sink.pushed.wait()
        with pytest.raises(UpstreamRateLimited) as caught:
            await backend.send(call, recording_sink(call))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert ("queue_full", 1.0) == (caught.value.upstream_code, caught.value.retry_after_s)


async def test_a_file_that_is_no_model(surroundings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What the kernels cannot load keeps the backend down; the path and their words are for the log."""
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, not really")
    backend = Embedded(model=str(tmp_path / "broken.gguf"), restart_min_s=30.0)
    await backend.start("local", surroundings())
    await _until(lambda: backend.facts().down not in {None, "the engine is starting"})
    down = backend.facts().down
    await backend.close()
    assert down is not None
    assert "the engine cannot load broken.gguf: the log says why" == down
    assert str(tmp_path / "broken.gguf") in caplog.text
