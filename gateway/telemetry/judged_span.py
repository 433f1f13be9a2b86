"""The span of a judged answer: beside the attempts, below the request whose answer it was."""

import secrets

from gateway.judgement import JudgedAnswer, in_a_word
from gateway.telemetry import span_names as names
from gateway.telemetry.span_records import INTERNAL, Span, Value
from gateway.types import TraceContext

_NANOSECONDS = 1_000_000_000


def judged_span(judged: JudgedAnswer, trace: TraceContext) -> Span:
    """What judges said, all together and one by one; of what they judged it has no word."""
    attributes: dict[str, Value] = {
        names.REQUEST_ID: judged.request_id,
        names.TENANT: judged.tenant,
        names.ROUTE: judged.route,
        names.PROVIDER_NAME: judged.backend,
        names.REQUEST_MODEL: judged.model,
        names.OCCASION: judged.occasion.value,
        names.ATTEMPT: judged.attempt,
        names.VERDICT: in_a_word(judged.judgement),
        names.VERDICTS: tuple([f"{name}: {in_a_word(one)}" for name, one in judged.judgements]),
    }
    if judged.judgement.score is not None:
        attributes[names.SCORE] = judged.judgement.score
    if judged.judgement.reason:
        attributes[names.REASON] = judged.judgement.reason
    if judged.escalated_for:
        attributes[names.ESCALATED_FOR] = judged.escalated_for
    if judged.cost_usd is not None:
        attributes[names.COST_USD] = float(judged.cost_usd)
    return Span(
        trace_id=trace.trace_id,
        span_id=secrets.token_hex(8),
        parent_id=trace.span_id,
        parent_is_remote=False,
        name=f"judge {judged.route}",
        kind=INTERNAL,
        times_ns=(round(judged.started_unix_s * _NANOSECONDS), round(judged.ended_unix_s * _NANOSECONDS)),
        attributes=attributes,
        is_fault=False,
    )
