from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.judgement import JudgedAnswer, Occasion, cannot_say, failed, passed
from gateway.telemetry.judged_span import judged_span
from gateway.telemetry.label_names import LabelNames
from gateway.telemetry.live_gauges import Live
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.span_records import INTERNAL
from gateway.types import TraceContext

TRACE = TraceContext(trace_id="1" * 32, span_id="2" * 16)
NAMES = LabelNames(routes=frozenset({"main"}), models={"alpha": frozenset({"small"})})
JUDGED = JudgedAnswer(
    request_id="req-1",
    tenant="acme",
    task="",
    route="main",
    backend="alpha",
    model="small",
    occasion=Occasion.CASCADE,
    judgement=failed("valid_json: no valid JSON"),
    judgements=(("valid_json", failed("no valid JSON")), ("http", cannot_say("late"))),
    attempt=1,
    escalated_for="valid_json",
    cost_usd=Decimal("0.5"),
    started_unix_s=1.7e9,
    ended_unix_s=1.7e9 + 0.25,
    trace=TRACE,
)


def _series(metrics: Metrics, family: str) -> dict[tuple[str, ...], float]:
    text = metrics.render("text/plain")[0].decode()
    samples = [sample for found in parse_text(text) for sample in found.samples if sample.name == family]
    return {tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value for sample in samples}


def test_verdicts_are_counted_judge_by_judge_and_all_together() -> None:
    """With labels that only the policy file has."""
    metrics = Metrics(NAMES, Live())
    metrics.take_judged(JUDGED)
    metrics.take_judged(replace(JUDGED, judgement=passed(), judgements=(), escalated_for="", route="gone", backend="x"))
    assert {
        ("alpha", "all", "cascade", "main", "failed"): 1,
        ("alpha", "valid_json", "cascade", "main", "failed"): 1,
        ("alpha", "http", "cascade", "main", "unsure"): 1,
        ("other", "all", "cascade", "other", "passed"): 1,
    } == _series(metrics, "headrace_verdicts_total")
    assert {("alpha", "valid_json", "main"): 1} == _series(metrics, "headrace_escalations_total")


def test_what_shadows_cost_is_counted_apart() -> None:
    """And only where it is known."""
    metrics = Metrics(NAMES, Live())
    metrics.take_judged(replace(JUDGED, occasion=Occasion.SHADOW))
    metrics.take_judged(replace(JUDGED, occasion=Occasion.SHADOW, cost_usd=None))
    metrics.take_judged(JUDGED)
    assert {("alpha", "main"): 0.5} == _series(metrics, "headrace_shadow_cost_usd_total")
    assert {} == _series(metrics, "headrace_cost_usd_total")


def test_what_was_not_judged_and_not_sent_is_counted_with_its_reason() -> None:
    """Over all workers."""
    metrics, other = Metrics(NAMES, Live()), Metrics(NAMES, Live())
    metrics.count_skipped("main", "queue_full")
    other.count_skipped("main", "queue_full")
    together = metrics.together_with([other.counted()], Live())
    assert {("queue_full", "main"): 2} == _series(together, "headrace_judging_skipped_total")


def test_the_span_of_a_judged_answer_hangs_below_its_request() -> None:
    """What was said, by whom, and why it went further; times are those of the judging."""
    span = judged_span(JUDGED, TRACE)
    assert (TRACE.trace_id, TRACE.span_id, INTERNAL, "judge main") == (
        span.trace_id,
        span.parent_id,
        span.kind,
        span.name,
    )
    assert 250_000_000 == pytest.approx(span.times_ns[1] - span.times_ns[0], abs=1000)
    expected: dict[str, Any] = {
        "headrace.request.id": "req-1",
        "headrace.tenant": "acme",
        "headrace.route": "main",
        "gen_ai.provider.name": "alpha",
        "gen_ai.request.model": "small",
        "headrace.judged.occasion": "cascade",
        "headrace.judged.attempt": 1,
        "headrace.judged.verdict": "failed",
        "headrace.judged.verdicts": ("valid_json: failed", "http: unsure"),
        "headrace.judged.score": 0.0,
        "headrace.judged.reason": "valid_json: no valid JSON",
        "headrace.judged.escalated_for": "valid_json",
        "headrace.cost_usd": 0.5,
    }
    assert expected == span.attributes
    unsure = replace(JUDGED, judgement=cannot_say(""), escalated_for="", cost_usd=None)
    assert not {"headrace.judged.score", "headrace.judged.reason", "headrace.cost_usd"} & set(
        judged_span(unsure, TRACE).attributes
    )
