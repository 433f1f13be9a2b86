"""What a finished request tells of the length of answers, where it can be believed."""

from msgspec import Struct

from gateway.types import LedgerEntry, Status
from policies.classify._prompt_tokens import choices, writes

_CUT_SHORT = "length"
_SLACK_TOKENS = 64
_LONGEST_TOKENS = 131_072


class AnswerSeen(Struct, frozen=True):
    """The tokens of one choice, whether its limit cut it short, and the prompt's tokens as the backend counted them."""

    tokens: int
    cut_short: bool
    prompt_tokens: int


def answer_seen(entry: LedgerEntry) -> AnswerSeen | None:
    """The answer of an entry that ended well and whose tokens the backend counted, else ``None``.

    A count that cannot be is no count: more than the request allowed, or more than any model writes.
    """
    request = entry.request
    if request is None or entry.outcome.status is not Status.OK or not writes(request):
        return None
    # Of a hedged request the loser may stand last.
    usage = next((attempt.usage for attempt in reversed(entry.attempts) if attempt.status is Status.OK), None)
    if usage is None or usage.estimated or usage.output_tokens <= 0:
        return None
    written = choices(request)
    tokens = usage.output_tokens // written
    most = _LONGEST_TOKENS
    if request.max_tokens is not None:
        most = min(most, request.max_tokens + _SLACK_TOKENS)
    if tokens > most:
        return None
    return AnswerSeen(tokens, entry.outcome.finish_reason == _CUT_SHORT, usage.prompt_tokens)
