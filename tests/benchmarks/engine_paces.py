"""How fast an engine is from request to first token, and how steady its streams are: in one process, on its clock."""

import statistics
import time
from typing import Any

from embedded_engine.engine import Engine
from embedded_engine.messages import Generate, Text
from embedded_engine.settings import EngineSettings

__all__ = ["pace", "prefix"]

_PREFIX_TOKENS = 1000
_TAIL_TOKENS = 8
_LONG_PROMPT_TOKENS = 4000
_STREAMS = 4


def prefix(model: str, *, rounds: int) -> dict[str, Any]:
    """Milliseconds to the first token of a prompt whose first 1,000 tokens are known, and of one that is all new."""
    engine = Engine(EngineSettings(model_path=model, threads=1, context_tokens=2048, speculation=False))
    cold_ms, warm_ms = [], []
    for number in range(rounds):
        for kind, times_ms in (("cold", cold_ms), ("warm", warm_ms)):
            tail = _tokens(_TAIL_TOKENS, seed=1000 * number + len(kind) * len(times_ms))
            prompt = _tokens(_PREFIX_TOKENS, seed=number) + tail
            times_ms.append(1000 * _first_token_s(engine, prompt))
    engine.close()
    cold, warm = statistics.median(cold_ms), statistics.median(warm_ms)
    return {"cold_ms": round(cold, 1), "cached_ms": round(warm, 1), "share": round(warm / cold, 4)}


def pace(model: str, *, threads: int) -> dict[str, Any]:
    """Milliseconds between the tokens of four streams: alone, and while 4,000 tokens are read beside them."""
    settings = EngineSettings(
        model_path=model, threads=threads, context_tokens=4096, kv_tokens=16384, speculation=False, prefix_cache_bytes=0
    )
    engine = Engine(settings)
    for number in range(_STREAMS):
        prompt = _tokens(60, seed=number)
        engine.submit(engine.prepare(Generate(id=number, token_ids=prompt, temperature=0, ignore_eos=True)))
    while engine.prefilled_tokens < 60 * _STREAMS:
        engine.step()
    alone_ms = [_step_ms(engine) for _ in range(60)]
    prompt = _tokens(_LONG_PROMPT_TOKENS, seed=99)
    engine.submit(engine.prepare(Generate(id=99, token_ids=prompt, max_tokens=1)))
    beside_ms, read_to = [], engine.prefilled_tokens + _LONG_PROMPT_TOKENS
    while engine.prefilled_tokens < read_to:
        beside_ms.append(_step_ms(engine))
    after_ms = [_step_ms(engine) for _ in range(60)]
    engine.close()
    first, last = statistics.median(alone_ms), statistics.median(after_ms)
    # The streams grow meanwhile, and with them what a step of theirs costs.
    ratios = [ms / (first + (last - first) * step / len(beside_ms)) for step, ms in enumerate(beside_ms)]
    return {
        "alone_before_ms": round(first, 1),
        "alone_after_ms": round(last, 1),
        "beside_median_ms": round(statistics.median(beside_ms), 1),
        "beside_p95_ms": round(statistics.quantiles(beside_ms, n=20)[-1], 1),
        "p95_to_median": round(statistics.quantiles(beside_ms, n=20)[-1] / statistics.median(beside_ms), 2),
        "p95_to_alone": round(statistics.quantiles(ratios, n=20)[-1], 2),
        "prompt_s": round(sum(beside_ms) / 1000, 1),
    }


def _step_ms(engine: Engine) -> float:
    started_s = time.thread_time()
    engine.step()
    return 1000 * (time.thread_time() - started_s)


def _first_token_s(engine: Engine, prompt: tuple[int, ...]) -> float:
    started_s = time.thread_time()
    engine.submit(engine.prepare(Generate(id=1, token_ids=prompt, temperature=0, max_tokens=4)))
    first_s = 0.0
    while engine.busy:
        events = engine.step()
        if not first_s and any(isinstance(event, Text) for event in events):
            first_s = time.thread_time() - started_s
    return first_s


def _tokens(count: int, *, seed: int) -> tuple[int, ...]:
    """Tokens of nothing in particular, the same for the same seed."""
    return tuple(1000 + (seed * 7919 + index * 104_729) % 30_000 for index in range(count))
