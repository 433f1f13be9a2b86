"""An engine's speeds from a file: as they are, or fitted to the log of a real engine.

A log has one request a line, as LLMServingSim's validation logs of vLLM do: ``input_toks``, ``output_toks``, and in
seconds ``scheduled_ts``, ``first_token_ts`` and ``last_token_ts``.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec import Struct

from gateway.errors import ConfigurationError
from gateway.replay.engine_model import EngineModel
from gateway.replay.least_squares import not_negative
from gateway.rules.parameters import did_you_mean

_LEAST_ROWS = 20


class Timing(Struct, frozen=True):
    """One request as a real engine served it."""

    input_toks: int
    output_toks: int
    scheduled_ts: float
    first_token_ts: float
    last_token_ts: float


_TIMING = msgspec.json.Decoder(Timing)


def read_engine(path: Path) -> EngineModel:
    """The speeds in the file: a JSON object with the fields of ``EngineModel``, or a log.

    Raises:
        ConfigurationError: it is neither.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", file=str(path)) from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    try:
        told = msgspec.json.decode(text, type=dict[str, float])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return fitted([_timing(line, number, path) for number, line in lines], file=str(path))
    return _model(told, path)


def fitted(log: Sequence[Timing], *, file: str) -> EngineModel:
    """The speeds that explain the log best.

    Writing an answer takes, for each of its steps, a constant, something for every sequence beside it and something for
    every token that they hold; and meanwhile prompts of others are read. The four are found together, none of them
    below zero, by least squares over all answers.

    Raises:
        ConfigurationError: the log is too short, or shows no time passing.
    """
    telling = [row for row in log if row.output_toks > 1 and row.last_token_ts > row.first_token_ts]
    if len(telling) < _LEAST_ROWS:
        fault = f"{len(telling)} answers of more than one token are too few to learn from: {_LEAST_ROWS} are enough"
        raise ConfigurationError(fault, file=file)
    rows = [_work(row, log) for row in telling]
    seconds = [row.last_token_ts - row.first_token_ts for row in telling]
    step_s, sequence_s, held_token_s, read_s = not_negative(rows, seconds)
    if step_s <= 0 or read_s <= 0:
        hint = "it needs quiet moments and busy ones"
        raise ConfigurationError("the log's times do not tell reading from writing", file=file, hint=hint)
    model = EngineModel()
    return replace(
        model,
        prefill_tokens_per_s=1 / read_s,
        step_s=step_s,
        sequence_s=sequence_s,
        held_token_s=held_token_s,
        most_held_tokens=_most_held(telling),
    )


def _most_held(log: Sequence[Timing]) -> int:
    """The most tokens that running sequences ever held; each holds half of its answer, on average."""
    changes = sorted(
        change
        for row in log
        for held in (row.input_toks + row.output_toks // 2,)
        for change in ((row.first_token_ts, held), (row.last_token_ts, -held))
    )
    return max(accumulate(change for _, change in changes))


def _work(row: Timing, log: Sequence[Timing]) -> tuple[float, float, float, float]:
    """What was done from the first token to the last: steps, sequences and held tokens by step, tokens read."""
    began, ended = row.first_token_ts, row.last_token_ts
    steps = row.output_toks - 1
    sequences = held = read = 0.0
    for other in log:
        beside = min(other.last_token_ts, ended) - max(other.first_token_ts, began)
        if beside > 0:
            share = beside / (ended - began)
            sequences += share
            held += share * (other.input_toks + other.output_toks / 2)
        spent = other.first_token_ts - other.scheduled_ts
        reading = min(other.first_token_ts, ended) - max(other.scheduled_ts, began)
        if other is not row and reading > 0 and spent > 0:
            read += other.input_toks * reading / spent
    return float(steps), steps * sequences, steps * held, read


def _model(told: dict[str, float], path: Path) -> EngineModel:
    known = [field.name for field in fields(EngineModel)]
    for name in told:
        if name not in known:
            raise ConfigurationError(f"an engine has no `{name}`", file=str(path), hint=did_you_mean(name, known))
    try:
        return msgspec.convert(told, EngineModel, strict=False)
    except ValueError as error:
        raise ConfigurationError(str(error), file=str(path)) from error


def _timing(line: bytes, number: int, path: Path) -> Timing:
    try:
        return _TIMING.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = f"this is neither an engine's speeds nor a line of its log: {error}"
        raise ConfigurationError(fault, file=str(path), where=f"line {number}") from None
