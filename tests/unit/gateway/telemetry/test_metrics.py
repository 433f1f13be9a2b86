import random
from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.price import Usage
from gateway.telemetry.label_names import LabelNames
from gateway.telemetry.live_gauges import BackendState, Live
from gateway.telemetry.metrics import Metrics
from gateway.types import Attempt, LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]
MakeAttempt = Callable[..., Attempt]
NAMES = LabelNames(routes=frozenset({"default"}), models={"groq": frozenset({"llama"})})


def _samples(metrics: Metrics) -> dict[str, float]:
    text = metrics.render("text/plain")[0].decode()
    samples = {}
    for family in parse_text(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples


@pytest.fixture
def metrics() -> Metrics:
    """Metrics that know one route, one backend and one model."""
    return Metrics(NAMES, Live())


def test_counts_requests_attempts_tokens_and_dollars(metrics: Metrics, make_entry: MakeEntry) -> None:
    """One good stream shows up once everywhere, with the numbers of its entry."""
    metrics.take([make_entry()])
    samples = _samples(metrics)
    expected = {
        "headrace_requests_total{operation=chat,route=default,status=ok}": 1,
        "headrace_attempts_total{backend=groq,model=llama,status=ok}": 1,
        "headrace_tokens_total{backend=groq,kind=input,model=llama}": 100,
        "headrace_tokens_total{backend=groq,kind=cached,model=llama}": 40,
        "headrace_tokens_total{backend=groq,kind=output,model=llama}": 51,
        "headrace_tokens_total{backend=groq,kind=reasoning,model=llama}": 7,
        "headrace_cost_usd_total{backend=groq,model=llama}": 0.00012,
        "headrace_request_seconds_sum{route=default}": 2.5,
        "headrace_request_seconds_bucket{le=2.5,route=default}": 1,
        "headrace_request_seconds_bucket{le=1.0,route=default}": 0,
        "headrace_request_seconds_bucket{le=+Inf,route=default}": 1,
        "headrace_ttft_seconds_sum{route=default}": 0.5,
        "headrace_time_per_output_token_seconds_sum{backend=groq,model=llama}": 2.0 / 50,
        "headrace_forecast_error_sum{route=default}": 51 / 50,
    }
    assert expected == {name: samples[name] for name in expected}


def test_every_attempt_counts(metrics: Metrics, make_entry: MakeEntry, make_attempt: MakeAttempt) -> None:
    """A failover is two attempts, each under its own status and price, in one request."""
    failed = make_attempt(status=Status.UPSTREAM_FAILED, usage=None, cost_usd=None, first_token_s=None)
    metrics.take([make_entry(attempts=(failed, make_attempt(cost_usd=Decimal("0.5"))))])
    samples = _samples(metrics)
    assert (1, 1, 1, 1, 0.5) == (
        samples["headrace_requests_total{operation=chat,route=default,status=ok}"],
        samples["headrace_attempts_total{backend=groq,model=llama,status=upstream_failed}"],
        samples["headrace_attempts_total{backend=groq,model=llama,status=ok}"],
        samples["headrace_unpriced_attempts_total{backend=groq,model=llama}"],
        samples["headrace_cost_usd_total{backend=groq,model=llama}"],
    )


def test_of_a_race_the_one_that_answered_is_measured(
    metrics: Metrics, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """The slower one, which began later and is last on the record, says nothing of the answer."""
    outrun = make_attempt(status=Status.CLIENT_GONE, usage=None, first_token_s=None)
    metrics.take([make_entry(attempts=(make_attempt(), outrun))])
    samples = _samples(metrics)
    assert (1, 1) == tuple(
        samples[f"headrace_{name}_count{{route=default}}"] for name in ("ttft_seconds", "forecast_error")
    )


def test_a_batch_counts_as_its_entries_do_one_by_one(make_entry: MakeEntry, make_attempt: MakeAttempt) -> None:
    """Whole answers and streams, with and without a price, a usage, a second attempt, a forecast that was far off."""
    chance = random.Random(7)  # noqa: S311  # a sample, not a secret
    attempts = [
        make_attempt(),
        make_attempt(backend="elsewhere", cost_usd=None),
        make_attempt(usage=None, status=Status.UPSTREAM_FAILED),
        make_attempt(first_token_s=None, cost_usd=Decimal("0.5")),
        make_attempt(usage=Usage(prompt_tokens=3, output_tokens=1)),
    ]
    statuses = [Outcome(status=Status.OK, http_status=200), Outcome(status=Status.TRUNCATED, http_status=200)]
    batch = [
        replace(
            make_entry(number, attempts=tuple(chance.sample(attempts, chance.randrange(3)))),
            outcome=chance.choice(statuses),
            ended_s=90 + chance.random() * 30,
        )
        for number in range(200)
    ]
    batch += [replace(entry, request=replace(entry.request, stream=False)) for entry in batch[:50] if entry.request]
    together, alone = Metrics(NAMES, Live()), Metrics(NAMES, Live())
    together.take(batch)
    for entry in batch:
        alone.take([entry])
    assert _samples(alone) == pytest.approx(_samples(together))


def test_an_entry_that_cannot_be_counted_costs_no_other(metrics: Metrics, make_entry: MakeEntry) -> None:
    """It is raised, and whatever else is in its batch is counted once."""
    broken = replace(make_entry(1), ended_s="late")
    with pytest.raises(ExceptionGroup):
        metrics.take([make_entry(0), broken, make_entry(2)])
    assert 2 == _samples(metrics)["headrace_requests_total{operation=chat,route=default,status=ok}"]
    assert 200 == _samples(metrics)["headrace_tokens_total{backend=groq,kind=input,model=llama}"]


def test_refused_request_has_no_route(metrics: Metrics, make_entry: MakeEntry) -> None:
    """A request that was refused at the door counts under the route ``none``, and measures nothing else."""
    outcome = Outcome(status=Status.REJECTED, http_status=401)
    metrics.take([make_entry(request=None, route="", forecast=None, attempts=(), outcome=outcome)])
    samples = _samples(metrics)
    assert 1 == samples["headrace_requests_total{operation=chat,route=none,status=rejected}"]
    assert [] == [name for name in samples if "ttft" in name or "attempts" in name]


def test_whole_answer_has_no_first_token(metrics: Metrics, make_entry: MakeEntry) -> None:
    """Times to the first and per later token are those of streams; a whole answer would blur them."""
    entry = make_entry()
    metrics.take([replace(entry, request=replace(entry.request, stream=False))])
    assert [] == [name for name in _samples(metrics) if "ttft" in name or "per_output_token" in name]


def test_failed_request_does_not_judge_the_forecast(metrics: Metrics, make_entry: MakeEntry) -> None:
    """An answer that was cut says nothing about how long it would have been."""
    metrics.take([make_entry(outcome=Outcome(status=Status.CLIENT_GONE, http_status=499))])
    assert [] == [name for name in _samples(metrics) if "forecast_error" in name]


def test_strangers_add_no_series(metrics: Metrics, make_entry: MakeEntry, make_attempt: MakeAttempt) -> None:
    """Five thousand requests with made-up models, routes, backends, users and tenants fold into ``other``."""
    draw = random.Random(7)  # noqa: S311  # made-up names, not secrets
    sizes = []
    for number in range(5000):
        word = f"{draw.getrandbits(64):x}"
        entry = make_entry(number, route=word, attempts=(make_attempt(backend=word, model=word),))
        arrival = replace(entry.arrival, tenant=word)
        request = replace(entry.request, model=word, unverified_user=word)
        metrics.take([replace(entry, arrival=arrival, request=request)])
        if number in (0, 4999):
            sizes.append(len(_samples(metrics)))
    assert sizes[0] == sizes[1]
    assert 5000 == _samples(metrics)["headrace_attempts_total{backend=other,model=other,status=ok}"]


def test_unknown_model_of_a_known_backend_folds(
    metrics: Metrics, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """A backend that is known keeps its name even where its model does not."""
    metrics.take([make_entry(attempts=(make_attempt(model="stranger"),))])
    assert 1 == _samples(metrics)["headrace_attempts_total{backend=groq,model=other,status=ok}"]


def test_reload_brings_new_names(metrics: Metrics, make_entry: MakeEntry) -> None:
    """After a reload the new names count under themselves; what was counted stays."""
    metrics.take([make_entry(route="fresh")])
    metrics.rename(LabelNames(routes=frozenset({"fresh"}), models=NAMES.models))
    metrics.take([make_entry(route="fresh")])
    samples = _samples(metrics)
    assert (1, 1) == (
        samples["headrace_requests_total{operation=chat,route=other,status=ok}"],
        samples["headrace_requests_total{operation=chat,route=fresh,status=ok}"],
    )


def test_present_numbers_are_read_at_the_scrape() -> None:
    """Gauges say what is true now, and backends that nobody configured do not appear."""
    running = [3]
    live = Live(
        in_flight=lambda: running[0],
        queued=lambda: 2,
        spooled=lambda: 7,
        backends=lambda: (
            BackendState(name="groq", up=True, in_flight=1, rests=True, limit=12),
            BackendState(name="stranger", up=True, in_flight=9, limit=4),
        ),
        dropped=lambda: {"sql": 4},
        observer_failures=lambda: 5,
        canaries=lambda: [("default", "rolled_back"), ("stranger", "running")],
    )
    metrics = Metrics(NAMES, live)
    running[0] = 0
    expected = {
        "headrace_in_flight{}": 0,
        "headrace_queued{}": 2,
        "headrace_ledger_spooled{}": 7,
        "headrace_backend_up{backend=groq}": 1,
        "headrace_backend_in_flight{backend=groq}": 1,
        "headrace_backend_resting{backend=groq}": 1,
        "headrace_backend_found_concurrency{backend=groq}": 12,
        "headrace_ledger_dropped_total{sink=sql}": 4,
        "headrace_observer_failures_total{}": 5,
        "headrace_canary{route=default,state=rolled_back}": 1,
        "headrace_canary{route=other,state=running}": 1,
    }
    assert expected == _samples(metrics)


@pytest.mark.parametrize(
    ("accept", "kind", "last_line"),
    [
        ("", "text/plain", False),
        ("*/*", "text/plain", False),
        ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "application/openmetrics-text", True),
    ],
)
def test_speaks_what_the_scraper_asks_for(
    metrics: Metrics, make_entry: MakeEntry, accept: str, kind: str, *, last_line: bool
) -> None:
    """OpenMetrics, with its end mark, where it is asked for; the older text else. Both parse."""
    metrics.take([make_entry()])
    body, content_type = metrics.render(accept)
    parse = parse_openmetrics if last_line else parse_text
    assert kind == content_type.split(";")[0]
    assert last_line == body.endswith(b"# EOF\n")
    assert "headrace_tokens" in "".join(family.name for family in parse(body.decode()))


def test_no_words_in_metrics(metrics: Metrics, marked_entry: LedgerEntry, marker: str) -> None:
    """Not even an entry that still has its words brings them into the exposition."""
    metrics.take([marked_entry])
    assert marker.encode() not in metrics.render("")[0]


def test_drafted_tokens_are_counted_by_source(metrics: Metrics) -> None:
    """Right ones and wrong ones; names that nobody configured fold together."""
    for backend, source in (("groq", "repetition"), ("groq", "repetition"), ("elsewhere", "a\nstrange one")):
        metrics.count_drafts(backend, source, 8, 5)
    metrics.count_drafts("groq", "markov", 0, 0)
    samples = {name: value for name, value in _samples(metrics).items() if "draft" in name}
    assert {
        "headrace_draft_tokens_total{backend=groq,outcome=accepted,source=repetition}": 10,
        "headrace_draft_tokens_total{backend=groq,outcome=rejected,source=repetition}": 6,
        "headrace_draft_tokens_total{backend=other,outcome=accepted,source=other}": 5,
        "headrace_draft_tokens_total{backend=other,outcome=rejected,source=other}": 3,
    } == samples


def test_what_caches_did_and_saved_is_counted(metrics: Metrics, make_entry: MakeEntry) -> None:
    """By route; a hit has no attempt, and costs nothing."""
    hit = replace(make_entry(), attempts=(), cache="hit", saved_usd=Decimal("0.25"))
    metrics.take([hit, replace(hit, saved_usd=None), replace(make_entry(), cache="miss"), make_entry()])
    samples = _samples(metrics)
    assert 2 == samples["headrace_cache_requests_total{result=hit,route=default}"]
    assert 1 == samples["headrace_cache_requests_total{result=miss,route=default}"]
    assert 0.25 == samples["headrace_cache_saved_usd_total{route=default}"]
