"""Which task a request says it belongs to: read from its headers, and from ``metadata`` in its body.

In this order, the first that is there holds:

1. ``x-headrace-task``
2. ``headrace.task`` in W3C baggage (https://www.w3.org/TR/baggage/), which tracing libraries pass on by themselves
3. ``metadata.task_id`` in the body
4. what the client calls its conversation, where that can be the name of a task

``x-headrace-stage``, or ``headrace.stage`` in baggage, names the stage of the task, and ``x-headrace-task-budget``
lowers what the task may take: ``usd=0.50, tokens=20000, seconds=120, steps=8``. A request with a stage or a budget that
names no task is one of its own, by the request's id. What is said to us and cannot be kept is refused, never dropped.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidRequest
from gateway.task import Task, TaskBudget
from gateway.types import ChatRequest

MOST_ID_CHARACTERS = 128
MOST_STAGE_CHARACTERS = 64

TASK_HEADER, STAGE_HEADER, BUDGET_HEADER = "x-headrace-task", "x-headrace-stage", "x-headrace-task-budget"
TASK_HEADERS = frozenset(name.encode() for name in (TASK_HEADER, STAGE_HEADER, BUDGET_HEADER, "baggage"))

NAME = "[A-Za-z0-9][A-Za-z0-9._:@+=~-]*"
"""What a name of a task or a stage is, as a regular expression."""
_NAME = re.compile(NAME.encode())
_FORM = "letters, digits and any of . _ : @ + = ~ - after the first"
_MEMBERS = {b"headrace.task": "task", b"headrace.stage": "stage"}
_MOST_BAGGAGE_BYTES = 8192
_MOST_BUDGET_BYTES = 256
_MOST_AMOUNT = 2**52
_MOST_USD = 9_000_000
_ENTRY = re.compile(rb"\s*(?P<name>[a-z]+)\s*=\s*(?P<amount>[0-9]{1,16}(?:\.[0-9]{1,12})?)\s*")
_WHOLE = frozenset(("tokens", "steps"))

_METADATA = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)


class Named(NamedTuple):
    """A task as the headers name it, its id still empty where only a stage or a budget was given."""

    id: str
    stage: str
    named_by: str
    budget: TaskBudget | None


def task_in_headers(headers: Sequence[tuple[bytes, bytes]]) -> Named | None:
    """What the task headers say; ``None`` where they say nothing.

    Args:
        headers: those of ``TASK_HEADERS`` alone, names in lower case.

    Raises:
        InvalidRequest: naming the header.
    """
    baggage = _in_baggage(value for name, value in headers if name == b"baggage")
    task = _only(headers, TASK_HEADER)
    stage = _only(headers, STAGE_HEADER)
    budget = _only(headers, BUDGET_HEADER)
    named_by = "header" if task is not None else "baggage"
    where = TASK_HEADER if task is not None else "baggage"
    task = task if task is not None else baggage.get("task")
    stage_where = STAGE_HEADER if stage is not None else "baggage"
    stage = stage if stage is not None else baggage.get("stage")
    if task is None and stage is None and budget is None:
        return None
    return Named(
        id=checked_name(task, where, MOST_ID_CHARACTERS) if task is not None else "",
        stage=checked_name(stage, stage_where, MOST_STAGE_CHARACTERS) if stage is not None else "",
        named_by=named_by,
        budget=_budget(budget) if budget is not None else None,
    )


def task_of(named: Named | None, session: str) -> Task | None:
    """The task of a request whose body nobody has read yet: as named, else its conversation."""
    if named is not None and named.id:
        return Task(id=named.id, stage=named.stage, named_by=named.named_by, budget=named.budget)
    found = session.encode("latin-1", "replace")
    known = session if session and len(found) <= MOST_ID_CHARACTERS and _NAME.fullmatch(found) else ""
    if named is None:
        return Task(id=known, named_by="session") if known else None
    return Task(id=known, stage=named.stage, named_by="session" if known else "request", budget=named.budget)


def with_task(request: ChatRequest) -> ChatRequest:
    """The request, in the task that its body names where its headers named none.

    Raises:
        InvalidRequest: the body's name for it is none.
    """
    arrival = request.arrival
    task = arrival.task
    if task is None:
        if "metadata" not in request.raw:
            return request
        task = Task(id="", named_by="request")
    if task.named_by in {"header", "baggage"}:
        return request
    name = _in_metadata(request)
    if name:
        task = replace(task, id=name, named_by="metadata")
    elif not task.id:
        if not task.stage and task.budget is None:
            return request
        task = replace(task, id=arrival.id)
    if task is arrival.task:
        return request
    return replace(request, arrival=replace(arrival, task=task))


def checked_name(value: bytes, where: str, most_characters: int) -> str:
    """A name of a task or a stage.

    Raises:
        InvalidRequest: it is none, ``where`` it stands; its value is not repeated.
    """
    if not value or len(value) > most_characters or not _NAME.fullmatch(value):
        raise InvalidRequest(f"{where} must be 1 to {most_characters} characters: {_FORM}", param=where)
    return value.decode("ascii")


def _only(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> bytes | None:
    """The header's value; ``None`` where there is none.

    Raises:
        InvalidRequest: there are several that differ.
    """
    found = {value.strip() for name, value in headers if name == wanted.encode("ascii")}
    if len(found) > 1:
        raise InvalidRequest(f"{wanted} is there several times, with values that differ", param=wanted)
    return found.pop() if found else None


def _in_baggage(values: Iterable[bytes]) -> dict[str, bytes]:
    """Our members of the baggage; of several with one key the first. Others' are nobody's business here."""
    text = b",".join(values)
    if not text or len(text) > _MOST_BAGGAGE_BYTES:
        return {}
    found: dict[str, bytes] = {}
    for member in text.split(b","):
        key, equals, value = member.partition(b";")[0].partition(b"=")
        ours = _MEMBERS.get(key.strip())
        if ours is not None and equals:
            found.setdefault(ours, unquote_to_bytes(value.strip()))
    return found


def _in_metadata(request: ChatRequest) -> str:
    raw = request.raw.get("metadata")
    if raw is None:
        return ""
    try:
        value = _METADATA.decode(raw).get("task_id")
    except msgspec.ValidationError:  # null, or what the format allows beside an object
        return ""
    if value is None or bytes(value) == b"null":
        return ""
    try:
        text = _TEXT.decode(value)
    except msgspec.ValidationError:
        raise InvalidRequest("metadata.task_id must be a string", param="metadata.task_id") from None
    return checked_name(text.encode(), "metadata.task_id", MOST_ID_CHARACTERS)


def _budget(value: bytes) -> TaskBudget:
    """The budget of the header.

    Raises:
        InvalidRequest: naming it.
    """
    amounts: dict[str, Decimal] = {}
    for entry in value[: _MOST_BUDGET_BYTES + 1].split(b","):
        found = _ENTRY.fullmatch(entry)
        name = found["name"].decode() if found is not None else ""
        if found is None or name not in TaskBudget.__struct_fields__ or name in amounts:
            raise _bad_budget()
        try:
            amounts[name] = Decimal(found["amount"].decode())
        except InvalidOperation:
            raise _bad_budget() from None
    within = all(amount <= (_MOST_USD if name == "usd" else _MOST_AMOUNT) for name, amount in amounts.items())
    whole = all(amount == amount.to_integral_value() for name, amount in amounts.items() if name in _WHOLE)
    if len(value) > _MOST_BUDGET_BYTES or not within or not whole:
        raise _bad_budget()
    return TaskBudget(
        usd=amounts.get("usd"),
        tokens=int(amounts["tokens"]) if "tokens" in amounts else None,
        seconds=float(amounts["seconds"]) if "seconds" in amounts else None,
        steps=int(amounts["steps"]) if "steps" in amounts else None,
    )


def _bad_budget() -> InvalidRequest:
    names = ", ".join(TaskBudget.__struct_fields__)
    words = f"{BUDGET_HEADER} must be amounts of {names}, as in `usd=0.50, tokens=20000`"
    return InvalidRequest(words, param=BUDGET_HEADER)
