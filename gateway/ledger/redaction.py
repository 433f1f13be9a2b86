"""An entry as it may be kept: without what people and models wrote to each other."""

from operator import attrgetter

from msgspec.structs import replace

from gateway.types import ChatRequest, Decision, LedgerEntry

_DETAIL = attrgetter("detail")


def without_words(entry: LedgerEntry) -> LedgerEntry:
    """``entry`` without prompt, stop strings, raw body and error details, which may quote either side.

    The model's name as the client wrote it and ``unverified_user`` stay: they are labels, not words.
    """
    request = _without_prompt(entry.request) if entry.request is not None else None
    kept = replace(entry, request=request, decision=_without_context(entry.decision, request))
    if any(map(_DETAIL, entry.attempts)):
        kept = replace(kept, attempts=tuple([replace(attempt, detail="") for attempt in entry.attempts]))
    if entry.outcome.detail:
        kept = replace(kept, outcome=replace(entry.outcome, detail=""))
    return kept


def _without_context(decision: Decision | None, request: ChatRequest | None) -> Decision | None:
    """Its context holds the request a second time."""
    if decision is None or decision.ctx is None or request is None:
        return decision
    return replace(decision, ctx=replace(decision.ctx, request=request))


def _without_prompt(request: ChatRequest) -> ChatRequest:
    return ChatRequest(
        arrival=request.arrival,
        model=request.model,
        stream=request.stream,
        include_usage=request.include_usage,
        n=request.n,
        max_tokens=request.max_tokens,
        sampling=replace(request.sampling, stop=()) if request.sampling.stop else request.sampling,
        needs=request.needs,
        prompt_bytes=request.prompt_bytes,
        unverified_user=request.unverified_user,
    )
