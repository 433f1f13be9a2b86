"""`headrace engine bench`: what a model costs on this machine."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from embedded_engine.condition import Ready
from embedded_engine.engine import Engine
from embedded_engine.errors import EngineError
from embedded_engine.kernels.choose import KERNELS
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.measured import CostPoint
from embedded_engine.messages import Generate
from embedded_engine.models import default_model_dir, find_model
from embedded_engine.settings import EngineSettings, default_threads

__all__ = ["main"]

_PROMPT_TOKENS = 248
_STREAM_TOKENS = 24
_LEAST_CONTEXT_TOKENS = 256
_STREAMS = (1, 4, 8)


class Streams(msgspec.Struct, frozen=True):
    """New tokens per second with so many streams at once."""

    streams: int
    tokens_per_s: float


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured.

    Attributes:
        ready: The model, its kernels, its curves and its self-test.
        threads: Threads that computed.
        load_s: From nothing to the first request.
        prompt_tokens_per_s: A prompt is read at this speed, when nothing else runs.
        decode: Speed by streams, of short answers, with nothing drafted.
    """

    ready: Ready
    threads: int
    load_s: float
    prompt_tokens_per_s: float
    decode: tuple[Streams, ...]


def main(argv: Sequence[str], *, model_dir: Path | None = None, **_others: object) -> int:
    """Measure a model.

    Args:
        argv: The arguments after `headrace engine`.
        model_dir: The model cache where `--dir` does not name one; None: `default_model_dir()`.

    Returns:
        0, or 1 with a sentence on standard error.
    """
    arguments = _parser(model_dir or default_model_dir()).parse_args(argv or ["--help"])
    try:
        model = find_model(arguments.model, arguments.dir)
        settings = EngineSettings(
            model_path=model.path,
            model_name=model.name,
            sha256=model.sha256,
            threads=arguments.threads or default_threads(),
            kernels=arguments.kernels,
            context_tokens=arguments.context_tokens,
            speculation=False,
            prefix_cache_bytes=0,
        )
        bench = _measure(settings)
    except EngineError as error:
        print(f"headrace engine: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(bench)).decode() + "\n")
    else:
        print(_text(bench))
    return 0


def _parser(model_dir: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace engine", description="The embedded engine.")
    commands = parser.add_subparsers(dest="command", required=True)
    bench = commands.add_parser("bench", help="what a model costs on this machine")
    bench.add_argument("model", nargs="?", default=DEFAULT_MODEL, help="a name in the model cache, or a file")
    bench.add_argument("--dir", type=Path, default=model_dir, help="the model cache (default: %(default)s)")
    bench.add_argument("--threads", type=_at_least(0), default=0, help="0: the physical cores but one")
    bench.add_argument("--kernels", choices=tuple(KERNELS), default="")
    bench.add_argument("--context-tokens", type=_at_least(_LEAST_CONTEXT_TOKENS), default=1024)
    bench.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return number

    return whole_number


def _measure(settings: EngineSettings) -> Bench:
    started_s = time.perf_counter()
    engine = Engine(replace(settings, slots=max(_STREAMS)))
    load_s = time.perf_counter() - started_s
    try:
        prompt_s = _seconds(engine, streams=1, prompt_tokens=_PROMPT_TOKENS, answer_tokens=1)
        decode = []
        for streams in _STREAMS:
            short_s, long_s = (_seconds(engine, streams, 1, tokens) for tokens in (1, 1 + _STREAM_TOKENS))
            decode.append(Streams(streams, streams * _STREAM_TOKENS / max(long_s - short_s, 1e-6)))
    finally:
        engine.close()
    return Bench(
        ready=engine.ready,
        threads=settings.threads,
        load_s=load_s,
        prompt_tokens_per_s=_PROMPT_TOKENS / prompt_s,
        decode=tuple(decode),
    )


def _seconds(engine: Engine, streams: int, prompt_tokens: int, answer_tokens: int) -> float:
    """How long so many requests take together."""
    token = engine.ready.vocabulary_tokens // 2
    for number in range(streams):
        request = Generate(
            id=number, token_ids=(token,) * prompt_tokens, max_tokens=answer_tokens, temperature=0, ignore_eos=True
        )
        engine.submit(engine.prepare(request))
    started_s = time.perf_counter()
    while engine.busy:
        engine.step()
    return time.perf_counter() - started_s


def _text(bench: Bench) -> str:
    ready, test = bench.ready, bench.ready.self_test
    lines = {
        "model": f"{ready.model} ({ready.description}), {ready.quantisation}",
        "kernels": f"{ready.kernels}, {bench.threads} of {os.cpu_count()} processors",
        "load": f"{bench.load_s:.1f} s",
        "alone and in a batch": f"at most {test.max_logit_error:.3g} apart, {test.argmax_flips} of {test.rows} flips",
        "prompts": f"{bench.prompt_tokens_per_s:.0f} tokens/s",
        "C(rows of one)": _curve(ready.verify_costs),
        "B(sequences)": _curve(ready.batch_costs),
        "decode": ", ".join(f"{one.streams} streams {one.tokens_per_s:.0f} tokens/s" for one in bench.decode),
    }
    return "\n".join(f"{name:22}{value}" for name, value in lines.items())


def _curve(points: Sequence[CostPoint]) -> str:
    """The first in milliseconds, the others in multiples of it."""
    first, *others = points
    ratios = ", ".join(f"{point.rows}: {point.seconds / first.seconds:.2f}" for point in others)
    return f"1: {1000 * first.seconds:.1f} ms, {ratios}"
