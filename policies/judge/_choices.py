"""An answer has one choice or several: it is as good as its worst. And what a choice looks like to those outside."""

from collections.abc import Callable
from typing import Any

from gateway.judgement import Answer, Choice, Judgement, cannot_say


def each_choice(answer: Answer, look: Callable[[Choice], Judgement]) -> Judgement:
    """The first failure of a choice; else the first of which nobody can say; else the pass with the least score."""
    if not answer.choices:
        return cannot_say("the answer has no choice")
    found = [look(choice) for choice in answer.choices]
    worst = min(range(len(found)), key=lambda at: _rank(found[at]))
    said = found[worst]
    if len(found) == 1 or not said.reason:
        return said
    reason = f"choice {worst + 1} of {len(found)}: {said.reason}"
    return Judgement(success=said.success, score=said.score, reason=reason)


def plain(choice: Choice) -> dict[str, Any]:
    """A choice as plain values, for judges that are no Python: its words, how it ended, its calls by name."""
    return {
        "text": choice.text,
        "refusal": choice.refusal,
        "finish_reason": choice.finish_reason,
        "tool_calls": [
            {"name": call.function.name, "arguments": call.function.arguments}
            for call in choice.tool_calls
            if call.function is not None
        ],
    }


def _rank(judgement: Judgement) -> tuple[int, float]:
    success, score = judgement.success, judgement.score
    return (0 if success is False else 1 if success is None else 2), 1.0 if score is None else score
