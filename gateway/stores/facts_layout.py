"""How the facts of a decision lie in the ledger: values at their places, without the names of their fields.

What a backend says of itself is the same with each request: it is encoded once, and goes in as the bytes that it is.
The names of the places are here. Where one of the structs that they are of changes, what was kept before keeps its
places: a layout of another length, or one that says so in its first place, is added beside this one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from gateway.price import Price
from gateway.types import Bill, Candidate, Context, Decision, Exclusion

FACTS = ("arrival", "model", "stream", "n", "max_tokens", "sampling", "needs", "prompt_bytes", "forecast", "worth")
"""The first places of a decision's facts; then come its deadline, its bills and its exclusions."""
ROW = ("id", "operation", "tenant", "received_unix_s")
"""What of an arrival stands in the request's own columns, as ``trace_id`` does."""
ARRIVAL = ("received_s", "session", "deadline_s", "task", "format_headers")
"""The other first places of an arrival; then come those of its trace, and of its precedence."""
TRACE = ("span_id", "parent_id", "sampled", "state")
PRECEDENCE = ("priority", "weight")
FORECAST = ("prompt_tokens", "output_tokens_p50", "output_tokens_p90", "choices", "units")
WORTH = ("usd_per_second", "usd_per_success")
DESCRIBED = ("backend", "model", "capabilities", "carries", "context_tokens", "price", "card", "refuses")
"""What a backend says of itself; then come its operations: those that reach it as they are, and those translated."""
LIVE = (
    "in_flight",
    "concurrency",
    "queued_prefill_tokens",
    "running_output_tokens",
    "warm_tokens",
    "prefill_tokens_per_s",
    "seconds_per_token",
    "failure_rate",
    "wait_s",
    "warm_elsewhere_tokens",
    "held_tokens",
    "waiting",
    "first_token_p50_s",
    "first_token_p90_s",
    "too_long_tokens",
    "down",
    "retry_in_s",
    "success",
    "goes_first",
)
"""What is true of a candidate now."""

_MOST_DESCRIBED = 1024
_ENCODE = msgspec.msgpack.Encoder().encode
_LIVE_BEGINS, _LIVE_ENDS = map(Candidate.__struct_fields__.index, (LIVE[0], LIVE[-1]))
_BEFORE_LIVE, _LIVE, _AFTER_LIVE = slice(_LIVE_BEGINS), slice(_LIVE_BEGINS, _LIVE_ENDS + 1), slice(_LIVE_ENDS + 1, None)
_descriptions: dict[tuple[Any, ...], tuple[tuple[Any, ...], Raw]] = {}
"""What a backend said of a model last, and the bytes of it. Both are compared: a reload that changes it is seen."""


def laid(decision: Decision, ctx: Context) -> tuple[Any, ...]:
    """The facts of a decision at their places, to be encoded."""
    request = ctx.request
    arrival, trace, precedence = request.arrival, request.arrival.trace, request.arrival.precedence
    return (
        (
            arrival.received_s,
            arrival.session,
            arrival.deadline_s,
            arrival.task,
            arrival.format_headers,
            (trace.span_id, trace.parent_id, trace.sampled, trace.state),
            (precedence.priority, precedence.weight),
        ),
        request.model,
        request.stream,
        request.n,
        request.max_tokens,
        request.sampling,
        request.needs,
        request.prompt_bytes,
        astuple(ctx.forecast),
        astuple(ctx.worth),
        ctx.deadline,
        list(map(_bill, decision.order)),
        list(map(_exclusion, decision.excluded)),
    )


def named(facts: Sequence[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What ``laid`` was given, by the names of its fields, as it comes out of the decoder.

    ``row`` has the columns ``ROW`` and ``trace_id`` of the request.

    Raises:
        ValueError: there are fewer values than places, or more.
        TypeError: where there should be several values there is one.
    """
    *known, deadline, order, excluded = facts
    found = dict(zip(FACTS, known, strict=True))
    return found | {
        "arrival": _named_arrival(found["arrival"], row),
        "forecast": dict(zip(FORECAST, found["forecast"], strict=True)),
        "worth": dict(zip(WORTH, found["worth"], strict=True)),
        "deadline": deadline,
        "order": [
            {"candidate": _named_candidate(described, live), "terms": terms, "total_usd": total_usd}
            for described, live, terms, total_usd in order
        ],
        "excluded": [
            {"candidate": _named_candidate(described, live), "filter": name, "reason": reason, "param": param}
            for described, live, name, reason, param in excluded
        ],
    }


def _named_arrival(values: Sequence[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    *known, trace, precedence = values
    return {
        **{name: row[name] for name in ROW},
        **dict(zip(ARRIVAL, known, strict=True)),
        "trace": {"trace_id": row["trace_id"], **dict(zip(TRACE, trace, strict=True))},
        "precedence": dict(zip(PRECEDENCE, precedence, strict=True)),
    }


def _bill(bill: Bill) -> tuple[Any, ...]:
    values = astuple(bill.candidate)
    return _described(values), values[_LIVE], bill.terms, bill.total_usd


def _exclusion(out: Exclusion) -> tuple[Any, ...]:
    values = astuple(out.candidate)
    return _described(values), values[_LIVE], out.filter, out.reason, out.param


def _named_candidate(described: Sequence[Any], live: Sequence[Any]) -> dict[str, Any]:
    *said, direct, translates = described
    found = dict(zip(DESCRIBED, said, strict=True)) | dict(zip(LIVE, live, strict=True))
    return found | {"operations": [*direct, *translates], "translates": translates}


def _described(values: tuple[Any, ...]) -> Raw:
    """What its backend says of the candidate that has these values: encoded anew where it says something else."""
    which, said = values[:2], values[_BEFORE_LIVE] + values[_AFTER_LIVE]
    known = _descriptions.get(which)
    if known is not None and known[0] == said:  # the same objects, so that this takes no time
        return known[1]
    if len(_descriptions) >= _MOST_DESCRIBED:
        _descriptions.clear()
    candidate = dict(zip(Candidate.__struct_fields__, values, strict=True))
    operations, translates = candidate["operations"], candidate["translates"]
    candidate["price"] = _stated(candidate["price"])
    described = Raw(_ENCODE((*[candidate[name] for name in DESCRIBED], operations - translates, translates)))
    _descriptions[which] = said, described
    return described


def _stated(price: Price | None) -> dict[str, Any] | None:
    """What the price says: it has two dozen fields, of which two or three have a value. No price is not one of zero."""
    if price is None:
        return None
    values = {field.name: (getattr(price, field.name), field.default) for field in fields(Price)}
    return {name: value for name, (value, unsaid) in values.items() if value != unsaid and value not in ((), {})}
