"""Checks that every field of a request has a value in its range.

A comparison with NaN is false, so each is written to hold for good values only.
"""

import math

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import (
    MAX_BIASED_TOKENS,
    MAX_CHOICES,
    MAX_LOGPROBS,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    ChatMessage,
    Generate,
)
from embedded_engine.speculative import DRAFTERS, MAX_DRAFTED_TOKENS

__all__ = ["check_one_prompt", "check_ranges"]

_MAX_BIAS = 100
_MAX_PENALTY = 2
"""OpenAI's ranges."""

_REPETITION = (0.01, 100)
"""Of any positive factor; past these logits leave the range of 32-bit numbers."""


def check_one_prompt(*prompts: tuple[ChatMessage, ...] | tuple[int, ...] | str | None) -> None:
    """Refuse no prompt, and two.

    Raises:
        InvalidRequest: There is not exactly one.
    """
    if sum(prompt is not None for prompt in prompts) != 1:
        raise InvalidRequest("give exactly one kind of prompt", param="prompt")


def check_ranges(request: Generate, *, slots: int, vocabulary_tokens: int) -> None:
    """Refuse the first field that is out of its range.

    Raises:
        InvalidRequest: One is; `param` names it.
    """
    check_one_prompt(request.messages, request.text, request.token_ids)
    most = min(MAX_CHOICES, slots)
    checks = {
        **_sampling_checks(request),
        "max_tokens": _max_tokens_check(request),
        "min_tokens": (
            request.min_tokens >= 0 and (request.max_tokens is None or request.min_tokens <= request.max_tokens),
            "must be from 0 to max_tokens",
        ),
        "n": (1 <= request.n <= most, f"must be from 1 to {most}"),
        "stop": (
            _stops_are_good(request.stop),
            f"must be at most {MAX_STOP_STRINGS} texts of 1 to {MAX_STOP_BYTES} bytes",
        ),
        "logprobs": (
            request.logprobs is None or 0 <= request.logprobs <= MAX_LOGPROBS,
            f"must be from 0 to {MAX_LOGPROBS}",
        ),
        "echo": (not request.echo or request.messages is None, "is for text prompts, not for conversations"),
        "continue_final_message": (
            not request.continues or _ends_with_words_of_the_assistant(request.messages),
            "needs a conversation whose last message is the assistant's, with content and without tool calls",
        ),
        "logit_bias": _bias_check(request, vocabulary_tokens),
        "speculative": _speculative_check(request),
        "predicted_tokens": (request.predicted_tokens is None or request.predicted_tokens >= 0, "must not be negative"),
        "deadline_s": (request.deadline_s is None or 0 < request.deadline_s < math.inf, "must be a number over 0"),
    }
    for param, (good, rule) in checks.items():
        if not good:
            raise InvalidRequest(f"{param} {rule}", param=param)


def _ends_with_words_of_the_assistant(messages: tuple[ChatMessage, ...] | None) -> bool:
    last = messages[-1] if messages else None
    return last is not None and last.role == "assistant" and bool(last.content) and not last.calls


def _sampling_checks(request: Generate) -> dict[str, tuple[bool, str]]:
    penalty_rule = f"must be from -{_MAX_PENALTY} to {_MAX_PENALTY}"
    least, most = _REPETITION
    return {
        "temperature": (0 <= request.temperature < math.inf, "must be a number from 0"),
        "top_p": (0 < request.top_p <= 1, "must be over 0 and at most 1"),
        "min_p": (0 <= request.min_p <= 1, "must be from 0 to 1"),
        "top_k": (request.top_k >= 0, "must not be negative"),
        "repetition_penalty": (least <= request.repetition_penalty <= most, f"must be from {least} to {most}"),
        "presence_penalty": (-_MAX_PENALTY <= request.presence_penalty <= _MAX_PENALTY, penalty_rule),
        "frequency_penalty": (-_MAX_PENALTY <= request.frequency_penalty <= _MAX_PENALTY, penalty_rule),
    }


def _max_tokens_check(request: Generate) -> tuple[bool, str]:
    if request.echo:
        return request.max_tokens is None or request.max_tokens >= 0, "must not be negative"
    return request.max_tokens is None or request.max_tokens >= 1, "must be at least 1"


def _speculative_check(request: Generate) -> tuple[bool, str]:
    wanted = request.speculative
    good = 0 <= wanted.n_max <= MAX_DRAFTED_TOKENS and set(wanted.drafters or ()) <= set(DRAFTERS)
    return good, f"has n_max from 0 to {MAX_DRAFTED_TOKENS}, and drafters of {', '.join(DRAFTERS)}"


def _bias_check(request: Generate, vocabulary_tokens: int) -> tuple[bool, str]:
    bias = request.logit_bias
    good = (
        len(bias) <= MAX_BIASED_TOKENS
        and len({token for token, _ in bias}) == len(bias)
        and all(0 <= token < vocabulary_tokens and -_MAX_BIAS <= value <= _MAX_BIAS for token, value in bias)
    )
    return good, (
        f"must give at most {MAX_BIASED_TOKENS} token ids, each once and from 0 to {vocabulary_tokens - 1}, "
        f"a bias from -{_MAX_BIAS} to {_MAX_BIAS}"
    )


def _stops_are_good(stops: tuple[str, ...]) -> bool:
    sizes = [len(stop.encode("utf-8", "replace")) for stop in stops]
    return len(stops) <= MAX_STOP_STRINGS and all(1 <= size <= MAX_STOP_BYTES for size in sizes)
