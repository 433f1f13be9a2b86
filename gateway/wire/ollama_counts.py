"""What Ollama counts and times: fields of the last line of its streams and of its whole answers.

Ollama's two counts are of the prompt and of the output. What else we know stands in a field of our own, ``headrace``,
which its clients pass over: tokens that a cache read or wrote, thoughts among the output, and whether somebody
estimated.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.price import Usage
from gateway.types import Arrival
from gateway.wire.openai_usage import MAX_TOKENS

_NANOSECONDS = 1_000_000_000
_BESIDE = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")
EXTENSION = "headrace"


def read_counts(prompt: Any, output: Any, beside: Any = None) -> Usage | None:
    """The usage out of ``prompt_eval_count``, ``eval_count`` and our own field; ``None`` where nobody counted.

    A prompt that Ollama found in its cache whole has no count, which is zero.
    """
    counts = [value if type(value) is int and 0 <= value <= MAX_TOKENS else None for value in (prompt, output)]
    if counts == [None, None]:
        return None
    known: Mapping[str, Any] = beside if isinstance(beside, dict) else {}
    cached, written, thought = (_count(known, name) for name in _BESIDE)
    prompt_tokens, output_tokens = counts[0] or 0, counts[1] or 0
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=min(cached, prompt_tokens),
        cache_write_tokens=min(written, prompt_tokens),
        reasoning_tokens=min(thought, output_tokens),
        estimated=known.get("estimated") is True,
    )


def written_counts(usage: Usage) -> dict[str, Any]:
    """The fields that say ``usage``."""
    fields: dict[str, Any] = {"prompt_eval_count": usage.prompt_tokens, "eval_count": usage.output_tokens}
    beside: dict[str, Any] = {name: getattr(usage, name) for name in _BESIDE if getattr(usage, name)}
    if usage.estimated:
        beside["estimated"] = True
    return {**fields, EXTENSION: beside} if beside else fields


class Stopwatch:
    """Times one answer on the gateway's own clock.

    ``load_duration`` is what passed before its attempt began, as Ollama counts what waits for a model into it: queues,
    and attempts in vain. ``prompt_eval_duration`` lasts until the first output; a whole answer does not tell when that
    was, so there it is left out, and ``eval_duration`` is all of the attempt.

    Args:
        arrival: when the request knocked.
        now_s: the gateway's monotonic clock.
        began_s: when the attempt began, on it.
    """

    __slots__ = ("_arrival", "_began_s", "_first_s", "_now_s")

    def __init__(self, arrival: Arrival, now_s: Callable[[], float], *, began_s: float) -> None:
        self._arrival = arrival
        self._now_s = now_s
        self._began_s = began_s
        self._first_s: float | None = None

    def output(self) -> None:
        """Output has come."""
        if self._first_s is None:
            self._first_s = self._now_s()

    def timestamp(self) -> str:
        """The present moment as ``created_at`` has it."""
        moment_s = self._arrival.received_unix_s + max(self._now_s() - self._arrival.received_s, 0.0)
        return utc(moment_s)

    def durations(self) -> dict[str, int]:
        """The fields, in nanoseconds."""
        now_s = self._now_s()
        parts = {"total_duration": now_s - self._arrival.received_s}
        parts["load_duration"] = self._began_s - self._arrival.received_s
        if self._first_s is not None:
            parts["prompt_eval_duration"] = self._first_s - self._began_s
        parts["eval_duration"] = now_s - (self._began_s if self._first_s is None else self._first_s)
        return {name: max(round(seconds * _NANOSECONDS), 0) for name, seconds in parts.items()}


def utc(unix_s: float) -> str:
    """A moment as Ollama writes it: RFC 3339, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0
