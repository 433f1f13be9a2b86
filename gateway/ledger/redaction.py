"""An entry as it may be kept: without what people and models wrote to each other."""

from msgspec.structs import replace

from gateway.types import Attempt, ChatRequest, Context, Decision, LedgerEntry


def without_words(entry: LedgerEntry) -> LedgerEntry:
    """``entry`` without prompt, stop strings, raw body and error details, which may quote either side.

    The model's name as the client wrote it and ``unverified_user`` stay: they are labels, not words.
    """
    request = _without_prompt(entry.request) if entry.request is not None else None
    return LedgerEntry(
        arrival=entry.arrival,
        request=request,
        route=entry.route,
        forecast=entry.forecast,
        decision=_without_context(entry.decision, request),
        attempts=tuple(_without_detail(attempt) for attempt in entry.attempts),
        outcome=replace(entry.outcome, detail="") if entry.outcome.detail else entry.outcome,
        ended_s=entry.ended_s,
        chunks=entry.chunks,
        cache=entry.cache,
        saved_usd=entry.saved_usd,
        guards=entry.guards,
    )


def _without_context(decision: Decision | None, request: ChatRequest | None) -> Decision | None:
    """Its context holds the request a second time."""
    if decision is None or decision.ctx is None or request is None:
        return decision
    ctx = decision.ctx
    kept = Context(request=request, forecast=ctx.forecast, worth=ctx.worth, deadline=ctx.deadline)
    return Decision(order=decision.order, excluded=decision.excluded, ctx=kept)


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


def _without_detail(attempt: Attempt) -> Attempt:
    return replace(attempt, detail="") if attempt.detail else attempt
