from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import InvalidRequest
from gateway.request_hints import read_hints
from gateway.task import Task, TaskBudget
from gateway.task_hints import with_task

Headers = list[tuple[bytes, bytes]]


@pytest.mark.parametrize(
    ("headers", "task"),
    [
        ([(b"x-headrace-task", b" run-7 ")], Task(id="run-7")),
        ([(b"x-headrace-task", b"a"), (b"x-headrace-task", b"a")], Task(id="a")),
        ([(b"x-headrace-task", b"a"), (b"baggage", b"headrace.task=b"), (b"session-id", b"c")], Task(id="a")),
        ([(b"baggage", b"k=v, headrace.task = b;p=1"), (b"session-id", b"c")], Task(id="b", named_by="baggage")),
        ([(b"baggage", b"k=v"), (b"baggage", b"headrace.task=a%3Ab")], Task(id="a:b", named_by="baggage")),
        ([(b"baggage", b"headrace.task=a,headrace.task=b")], Task(id="a", named_by="baggage")),
        ([(b"session-id", b"c")], Task(id="c", named_by="session")),
        ([(b"session-id", b"c d")], None),
        ([(b"session-id", b"x" * 129)], None),
        ([(b"baggage", b"k=v,=,headrace.task,%%%")], None),
        ([(b"baggage", b"headrace.task=a" + b",k=v" * 2048)], None),
        ([(b"host", b"x")], None),
        ([(b"x-headrace-task", b"a"), (b"x-headrace-stage", b"plan")], Task(id="a", stage="plan")),
        ([(b"baggage", b"headrace.stage=plan,headrace.task=a")], Task(id="a", stage="plan", named_by="baggage")),
        ([(b"session-id", b"c"), (b"x-headrace-stage", b"plan")], Task(id="c", stage="plan", named_by="session")),
        ([(b"x-headrace-stage", b"plan")], Task(id="", stage="plan", named_by="request")),
    ],
)
def test_the_first_place_that_names_a_task_holds(headers: Headers, task: Task | None) -> None:
    """Our header, then baggage, then the conversation; what is only a hint and no name is none."""
    hints = read_hints(headers)
    assert (task, None) == (hints.task, hints.fault)


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ([(b"x-headrace-task", b"")], "x-headrace-task"),
        ([(b"x-headrace-task", b"a/b")], "x-headrace-task"),
        ([(b"x-headrace-task", b"..")], "x-headrace-task"),
        ([(b"x-headrace-task", b"a b")], "x-headrace-task"),
        ([(b"x-headrace-task", "ä".encode())], "x-headrace-task"),
        ([(b"x-headrace-task", b"x" * 129)], "x-headrace-task"),
        ([(b"x-headrace-task", b"a"), (b"x-headrace-task", b"b")], "x-headrace-task"),
        ([(b"x-headrace-task", b"a"), (b"x-headrace-stage", b"x" * 65)], "x-headrace-stage"),
        ([(b"baggage", b"headrace.task=a%2Fb")], "baggage"),
        ([(b"x-headrace-task-budget", b"")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=NaN")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=-1")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=1e3")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=1,usd=2")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"euro=1")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"steps=1.5")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"tokens=9999999999999999")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=9000001")], "x-headrace-task-budget"),
        ([(b"x-headrace-task-budget", b"usd=1," + b" " * 300 + b"steps=1")], "x-headrace-task-budget"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_the_headers_name(headers: Headers, param: str) -> None:
    """A task that went by another name would be counted wrong in silence. The value is not repeated."""
    hints = read_hints(headers)
    assert hints.fault is not None
    assert (400, param, None) == (hints.fault.http_status, hints.fault.param, hints.task)


def test_a_budget_is_read_to_the_digit() -> None:
    """In any order, with or without spaces."""
    headers = [(b"x-headrace-task", b"a"), (b"x-headrace-task-budget", b"steps=8 , usd=0.10,seconds=1.5,tokens=200")]
    budget = TaskBudget(usd=Decimal("0.10"), tokens=200, seconds=1.5, steps=8)
    assert Task(id="a", budget=budget) == read_hints(headers).task


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"x-headrace-task", b"x-headrace-stage", b"x-headrace-task-budget", b"baggage"]),
            st.one_of(st.binary(max_size=80), st.text("headrace.tsk=,;%0123456789 u", max_size=60).map(str.encode)),
        ),
        max_size=4,
    )
)
def test_whatever_comes_is_a_task_or_a_named_fault(headers: Headers) -> None:
    """Never another error, and never an id or a stage that cannot stand in a path."""
    hints = read_hints(headers)
    if hints.fault is not None:
        assert hints.fault.param in {"x-headrace-task", "x-headrace-stage", "x-headrace-task-budget", "baggage"}
    elif hints.task is not None:
        name = hints.task.id + hints.task.stage
        assert name.isascii()
        assert "/" not in name
        assert len(hints.task.id) <= 128


@pytest.mark.parametrize(
    ("task", "metadata", "expected"),
    [
        (None, b'{"task_id": "m"}', Task(id="m", named_by="metadata")),
        (Task(id="h"), b'{"task_id": "m"}', Task(id="h")),
        (Task(id="b", named_by="baggage"), b'{"task_id": "m"}', Task(id="b", named_by="baggage")),
        (Task(id="s", named_by="session"), b'{"task_id": "m"}', Task(id="m", named_by="metadata")),
        (Task(id="s", named_by="session"), b"{}", Task(id="s", named_by="session")),
        (Task(id="", stage="plan", named_by="request"), b"null", Task(id="req-1", stage="plan", named_by="request")),
        (Task(id="", stage="p", named_by="request"), b'{"task_id": "m"}', Task(id="m", stage="p", named_by="metadata")),
        (None, b'{"task_id": null, "other": 3}', None),
        (None, b"null", None),
    ],
)
def test_the_body_names_a_task_where_the_headers_do_not(
    make_request: Any, task: Task | None, metadata: bytes, expected: Task | None
) -> None:
    """It goes before what the client only calls its conversation; a stage alone makes the request its own task."""
    request = make_request("hi", raw={"metadata": metadata})
    request = replace(request, arrival=replace(request.arrival, task=task))
    assert expected == with_task(request).arrival.task


@pytest.mark.parametrize("value", [b'"a/b"', b'""', b"7", b"{}", b'"\xc3\xa4"', b'"' + b"x" * 129 + b'"'])
def test_a_body_whose_task_is_none_is_refused_by_the_fields_name(make_request: Any, value: bytes) -> None:
    """As a header would be."""
    with pytest.raises(InvalidRequest) as caught:
        with_task(make_request("hi", raw={"metadata": b'{"task_id": ' + value + b"}"}))
    assert "metadata.task_id" == caught.value.param


def test_a_request_that_names_no_task_is_left_as_it_is(make_request: Any) -> None:
    """Nothing is made for it."""
    request = make_request("hi")
    assert with_task(request) is request
