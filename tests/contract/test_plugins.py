"""What holds for every plugin, of every family: the suite finds them by itself."""

import ast
import copy
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import policies
from gateway.admission import Unbounded
from gateway.card import Card
from gateway.conversation import Message, Part
from gateway.errors import ClientError, ConfigurationError
from gateway.forecast import Forecast
from gateway.ports import BatchScorer
from gateway.price import Price
from gateway.rules import plugins
from gateway.rules.guard_specs import split
from gateway.success import Success
from gateway.types import Arrival, Bill, Candidate, ChatRequest, Context, Operation, TraceContext
from gateway.worth import Deadline, Worth

Make = Callable[..., Any]

EVERY = [(family, name) for family in plugins.FAMILIES for name in plugins.names(family)]
ALLOWED = {
    "gateway.admission",
    "gateway.card",
    "gateway.types",
    "gateway.conversation",
    "gateway.forecast",
    "gateway.guard",
    "gateway.guard_mark",
    "gateway.judgement",
    "gateway.ports",
    "gateway.price",
    "gateway.request_fields",
    "gateway.errors",
    "msgspec",
    "jsonschema_rs",
    "cel",
    "re2",
}


def _named(*families: str) -> Any:
    chosen = [(family, name) for family, name in EVERY if family in families]
    return pytest.mark.parametrize(("family", "name"), chosen, ids=[f"{family}-{name}" for family, name in chosen])


every_plugin = _named(*plugins.FAMILIES)


def _examples(family: str, name: str) -> Iterator[Any]:
    """Every spec of the plugin in the YAML block under ``Example::`` of its docstring."""
    text = plugins.describe(family, name).text
    _, found, after = text.partition("Example::\n")
    block = re.match(r"(?:\s*\n|[ ]{4}.*(?:\n|$))*", after)
    assert found, "the docstring has no `Example::`"
    assert block, "nothing is indented under `Example::`"
    found_specs = _specs(yaml.safe_load(textwrap.dedent(block.group())), name)
    yield from (split(spec)["use"] for spec in found_specs) if family == "guard" else found_specs


def _specs(node: Any, name: str) -> Iterator[Any]:
    if node == name or (isinstance(node, dict) and node.get("use") == name):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _specs(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _specs(value, name)


def _built(family: str, name: str) -> list[Any]:
    return [plugins.build(family, spec, where="example") for spec in _examples(family, name)]


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


def test_every_family_of_policies_has_a_plugin() -> None:
    """So that an empty list cannot make this suite pass."""
    assert {"classify", "admit", "filter", "cost", "rank"} <= {family for family, _ in EVERY}


@every_plugin
def test_a_plugin_is_a_frozen_dataclass_named_like_its_file(family: str, name: str) -> None:
    """`by_cost` is `ByCost`; acronyms may keep their capitals."""
    cls = plugins.load(family, name)
    assert name.replace("_", "") == cls.__name__.lower()
    with pytest.raises(AttributeError):
        _built(family, name)[0].anything = 1


@every_plugin
def test_the_example_in_the_docstring_builds(family: str, name: str) -> None:
    """Documentation that has rotted fails here."""
    assert _built(family, name)


@every_plugin
def test_every_parameter_is_documented_and_nothing_else(family: str, name: str) -> None:
    """Under `Attributes:`, in the order of the fields."""
    card = plugins.describe(family, name)
    section = re.search(r"^Attributes:\n((?: {4}.*\n?|\n)*)", card.text, re.MULTILINE)
    documented = re.findall(r"^ {4}(\w+): ", section.group(1), re.MULTILINE) if section else []
    assert [parameter.name for parameter in card.parameters] == documented


@every_plugin
def test_a_docstring_begins_with_a_sentence(family: str, name: str) -> None:
    """It is the line in the list of plugins."""
    assert plugins.describe(family, name).summary.endswith(".")


@every_plugin
def test_a_misspelt_parameter_is_refused(family: str, name: str) -> None:
    """By name, at its place."""
    with pytest.raises(ConfigurationError, match=r"here\.no_such_parameter: unknown parameter"):
        plugins.build(family, {"use": name, "no_such_parameter": 1}, where="here")


@every_plugin
def test_verbs_have_the_names_and_parameters_of_the_port(family: str, name: str) -> None:
    """Also those that a caller gives by name, and waited for where the port is."""
    cls, port = plugins.load(family, name), plugins.FAMILIES[family].port
    for verb in plugins.FAMILIES[family].verbs:
        expected, actual = getattr(port, verb), getattr(cls, verb)
        assert list(inspect.signature(expected).parameters) == list(inspect.signature(actual).parameters)
        assert inspect.iscoroutinefunction(expected) == inspect.iscoroutinefunction(actual)
        assert actual.__doc__, f"{verb} has no docstring"


@every_plugin
def test_what_a_plugin_learns_does_not_make_it_another_plugin(family: str, name: str) -> None:
    """A reload keeps what is configured as before: private state is neither compared, shown nor a parameter."""
    cls = plugins.load(family, name)
    for field in fields(cls):
        if not field.init:
            assert (field.name[0], field.compare, field.repr) == ("_", False, False)
    assert _built(family, name) == _built(family, name)


@every_plugin
def test_a_schema_can_be_made_for_it(family: str, name: str) -> None:
    """For editors and for the reference."""
    card, schema = plugins.describe(family, name), plugins.schema(family, name)
    assert [parameter.name for parameter in card.parameters] == list(schema.get("properties", {}))
    assert get_type_hints(plugins.load(family, name)) is not None


@_named("filter")
def test_a_filter_says_whether_the_client_is_to_blame(family: str, name: str) -> None:
    """With one of its own errors, or `None`."""
    refusal = plugins.load(family, name).refusal  # type: ignore[attr-defined]  # of the port
    assert refusal is None or issubclass(refusal, ClientError)


@_named("filter")
@given(ctx=contexts, candidate=candidates)
def test_a_filter_is_pure_and_gives_its_reason_in_words(
    family: str, name: str, ctx: Context, candidate: Candidate
) -> None:
    """The same inputs, the same answer; and nothing is changed."""
    before = copy.deepcopy((ctx, candidate))
    for policy in _built(family, name):
        reason = policy.exclude(ctx, candidate)
        assert reason == policy.exclude(ctx, candidate)
        assert reason is None or (isinstance(reason, str) and reason.strip())
    assert before == (ctx, candidate)


@_named("cost")
@given(ctx=contexts, some=st.lists(candidates, max_size=4))
def test_a_term_is_pure_finite_and_never_negative(family: str, name: str, ctx: Context, some: list[Candidate]) -> None:
    """In whatever order the candidates come: one bill does not know of another."""
    before = copy.deepcopy((ctx, some))
    for policy in _built(family, name):
        bills = [policy.usd(ctx, candidate) for candidate in some]
        assert bills == [policy.usd(ctx, candidate) for candidate in reversed(some)][::-1]
        assert all(type(usd) is float and math.isfinite(usd) and usd >= 0 for usd in bills)
        if isinstance(policy, BatchScorer):
            assert bills == policy.usd_each(ctx, some)
    assert before == (ctx, some)


@_named("rank")
@given(
    ctx=contexts,
    some=st.lists(st.tuples(candidates, st.floats(allow_infinity=True, allow_nan=False)), max_size=5),
    shuffled=st.randoms(use_true_random=False),
)
def test_a_rank_orders_and_neither_loses_nor_invents(
    family: str, name: str, ctx: Context, some: list[tuple[Candidate, float]], shuffled: Any
) -> None:
    """And the order in which the bills come in decides nothing, where candidates can be told apart."""
    distinct = {(candidate.backend, candidate.model): (candidate, usd) for candidate, usd in some}.values()
    bills = tuple(Bill(candidate=candidate, terms=(("t", usd),), total_usd=usd) for candidate, usd in distinct)
    for policy in _built(family, name):
        order = policy.order(ctx, bills)
        assert isinstance(order, tuple)
        assert sorted(map(id, bills)) == sorted(map(id, order))
        assert order == policy.order(ctx, tuple(shuffled.sample(bills, len(bills))))


@_named("classify")
@given(asked=requests)
def test_a_forecast_is_never_negative_in_order_and_within_the_cap(family: str, name: str, asked: ChatRequest) -> None:
    """For any well-formed request."""
    for policy in _built(family, name):
        forecast = policy.forecast(asked)
        assert 0 <= forecast.prompt_tokens
        assert 0 <= forecast.output_tokens_p50 <= forecast.output_tokens_p90
        assert all(type(value) is int for value in (forecast.prompt_tokens, forecast.output_tokens_p90))
        if asked.max_tokens is not None:
            assert forecast.output_tokens_p90 <= asked.max_tokens * asked.n
        assert forecast == policy.forecast(asked)


@_named("admit")
async def test_an_admitter_holds_a_place_and_gives_it_back(make_context: Make, family: str, name: str) -> None:
    """Whether the block ends well or not, as often as one likes."""
    for policy in _built(family, name):
        async with policy.admit(make_context(), Unbounded()):
            assert 1 == policy.in_flight
        for _ in range(1000):
            with pytest.raises(ZeroDivisionError):
                async with policy.admit(make_context(), Unbounded()):
                    raise ZeroDivisionError
        assert (0, 0) == (policy.in_flight, policy.waiting)


@pytest.mark.parametrize(
    "file", sorted(Path(policies.__file__).parent.rglob("*.py")), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_a_policy_imports_only_the_vocabulary(file: Path) -> None:
    """And its own parts, or those that families share: no I/O libraries, no other policy, no more of the kernel."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, "relative import"
            imported.add(node.module or "")
    parts = {name for name in imported if name.startswith((f"policies.{file.parent.name}._", "policies._"))}
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names} - ALLOWED - parts
    forbidden = imported & {"os", "socket", "threading", "subprocess", "time", "random", "pathlib", "logging"}
    assert (set(), set()) == (foreign, forbidden)
