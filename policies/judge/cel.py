"""Judges by an expression in the Common Expression Language."""

import math
from dataclasses import dataclass, field
from typing import Any

from gateway.judgement import Answer, Judgement, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies._expressions import compiled
from policies.judge._choices import plain


@dataclass(frozen=True, kw_only=True)
class Cel:
    """Judges by an expression in the Common Expression Language: true passes, false fails, a number is a score.

    The expression sees ``text`` and ``finish_reason`` (of the first choice), ``choices`` (each with ``text``,
    ``refusal``, ``finish_reason`` and ``tool_calls`` of ``name`` and ``arguments``), ``prompt`` (the last turn's text),
    ``model`` (that the client asked for), ``max_tokens`` (0 where there is no bound), ``prompt_tokens`` and
    ``output_tokens``. CEL has no loops without end and cannot reach anything else; where it fails on an answer, it
    cannot say. Needs ``headrace[judges]``.

    Attributes:
        expression: at most 2,000 characters.
        passes_from: the score from which on a number passes.

    Example::

        judge:
          - {use: cel, expression: 'size(text) > 40 && !text.contains("TODO")'}
          - {use: cel, expression: 'output_tokens < 500 ? 1.0 : 0.2', passes_from: 0.5}
    """

    expression: str
    passes_from: float = 0.5
    _program: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.passes_from <= 1:
            raise ValueError("`passes_from` must be more than 0 and at most 1")
        program = compiled(self.expression, _NAMES, extra="judges", may_nest=True)
        object.__setattr__(self, "_program", program)

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:
        """See ``Judge.judge``."""
        if not answer.choices:
            return cannot_say("the answer has no choice")
        try:
            result = self._program.execute(_variables(request, answer))
        except Exception as error:  # noqa: BLE001  # the language maps its own errors to many of Python's
            return cannot_say(f"the expression cannot be evaluated: {type(error).__name__}")
        if isinstance(result, bool):
            return passed() if result else failed("the expression is false")
        if isinstance(result, int | float) and math.isfinite(result) and 0 <= result <= 1:
            passes = result >= self.passes_from
            reason = "" if passes else f"a score of {result:.3g}, below {self.passes_from:.3g}"
            return Judgement(success=passes, score=float(result), reason=reason)
        return cannot_say("the expression gives neither true nor false nor a score of 0 to 1")


def _variables(request: ChatRequest, answer: Answer) -> dict[str, Any]:
    first, usage = answer.choices[0], answer.usage
    return {
        "text": first.text,
        "finish_reason": first.finish_reason,
        "choices": [plain(choice) for choice in answer.choices],
        "prompt": _last_text(request),
        "model": request.model,
        "max_tokens": request.max_tokens or 0,
        "prompt_tokens": usage.prompt_tokens if usage is not None else 0,
        "output_tokens": usage.output_tokens if usage is not None else 0,
    }


def _last_text(request: ChatRequest) -> str:
    if request.messages:
        return request.messages[-1].text()
    return request.prompt if isinstance(request.prompt, str) else ""


_NAMES = frozenset(
    {
        "text",
        "finish_reason",
        "choices",
        "prompt",
        "model",
        "max_tokens",
        "prompt_tokens",
        "output_tokens",
    }
)
