"""Anything that a policy may be asked about: requests, candidates and what is known of both."""

from hypothesis import strategies as st

from gateway.card import Card
from gateway.conversation import Message, Part
from gateway.forecast import Forecast
from gateway.price import Price
from gateway.success import Success
from gateway.types import Arrival, Candidate, ChatRequest, Context, Operation, TraceContext
from gateway.worth import Deadline, Worth

tokens = st.integers(0, 2_000_000)
money = st.decimals(0, 1000, places=6)
names = st.sampled_from(["alpha", "beta", "gamma"])
prices = st.builds(
    Price,
    input_usd_per_mtok=money,
    output_usd_per_mtok=money,
    cached_input_usd_per_mtok=st.none() | money,
    request_usd=money,
)
candidates = st.builds(
    Candidate,
    backend=names,
    model=names,
    operations=st.frozensets(st.sampled_from(Operation)),
    capabilities=st.none() | st.frozensets(st.sampled_from(["tools", "vision"])),
    carries=st.none() | st.frozensets(st.sampled_from(["messages", "seed", "stop"])),
    context_tokens=st.none() | tokens,
    price=st.none() | prices,
    in_flight=st.integers(0, 10_000),
    concurrency=st.none() | st.integers(0, 1000),
    queued_prefill_tokens=tokens,
    running_output_tokens=tokens,
    warm_tokens=tokens,
    prefill_tokens_per_s=st.floats(1e-3, 1e6),
    seconds_per_token=st.floats(0, 10),
    failure_rate=st.floats(0, 1),
    wait_s=st.floats(0, 1e4),
    warm_elsewhere_tokens=tokens,
    first_token_p50_s=st.floats(0, 1e4),
    first_token_p90_s=st.floats(0, 1e5),
    down=st.none() | st.just("cooling"),
    card=st.none()
    | st.builds(
        Card,
        precision=st.sampled_from(["", "bf16", "fp8"]),
        equivalence=st.sampled_from([None, "claimed", "measured", "verified"]),
    ),
    success=st.none()
    | st.builds(
        Success,
        p=st.floats(0, 1),
        mean=st.floats(0, 1),
        low=st.floats(0, 1),
        high=st.floats(0, 1),
        n=st.floats(0, 1e6),
        calls=st.floats(1, 100),
    ),
)
arrival = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=0,
    received_unix_s=0,
    trace=TraceContext(trace_id="1" * 32, span_id="1" * 16),
)
contents = st.text() | st.lists(st.builds(Part, type=st.just("text"), text=st.text()), max_size=2).map(tuple)
raws = st.fixed_dictionaries({}, optional={"seed": st.just(b"1"), "stop": st.just(b"[]"), "user": st.just(b'"u"')})
requests = st.builds(
    ChatRequest,
    arrival=st.just(arrival),
    model=names,
    messages=st.lists(st.builds(Message, role=st.just("user"), content=contents), max_size=4).map(tuple),
    prompt=st.none() | st.text() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
    n=st.integers(1, 8),
    max_tokens=st.none() | st.integers(0, 100_000),
    needs=st.frozensets(st.sampled_from(["tools", "vision"])),
    prompt_bytes=st.integers(0, 10**7),
    raw=raws,
)
contexts = st.builds(
    Context,
    request=requests,
    forecast=st.builds(Forecast, prompt_tokens=tokens, output_tokens_p50=tokens, output_tokens_p90=tokens),
    worth=st.builds(Worth, usd_per_second=st.floats(0, 10), usd_per_success=st.floats(0, 10)),
    deadline=st.none()
    | st.builds(Deadline, first_token_s=st.none() | st.floats(0, 1e4), total_s=st.none() | st.floats(0, 1e4)),
)
