"""What arrives: who asks, and what for."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from gateway.conversation import Message, Prompt, Remembered, Sampling, Translation
from gateway.operation import Operation
from gateway.task import Task
from gateway.units import Units
from gateway.worth import Precedence


class TraceContext(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """W3C trace context: where this request hangs in a trace.

    ``trace_id`` and ``span_id`` are ours (32 and 16 hex digits), ``parent_id`` is the caller's span or empty.
    ``state`` is the caller's ``tracestate``, passed on as it came.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    sampled: bool = True
    state: str = ""


class Form(Struct, frozen=True, kw_only=True, gc=False):
    """A body of ``multipart/form-data``, as it came. ``boundary`` is what stands between its parts.

    ``begin`` is where its first delimiter stands, ``model_span`` from where to where the value of ``model``, in bytes;
    ``None`` where there is none. ``file_bytes`` is how long its files are together.
    """

    body: bytes
    boundary: bytes
    begin: int
    model_span: tuple[int, int] | None
    file_bytes: int


class Arrival(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A request that has knocked: who it is and when it came, before anybody read its body.

    ``received_s`` is on the monotonic clock, ``received_unix_s`` is the same moment for people. ``session`` is what the
    client calls its conversation: a hint, no identity. It wants its whole answer ``deadline_s`` after ``received_s``.
    ``task`` is what it says the request is part of; ``None`` where it does not say. ``format_headers`` belong to its
    format as the body does, and go on to upstreams that speak it.
    """

    id: str
    operation: Operation
    tenant: str
    received_s: float
    received_unix_s: float
    trace: TraceContext
    session: str = ""
    deadline_s: float | None = None
    precedence: Precedence = Precedence()
    task: Task | None = None
    format_headers: tuple[tuple[str, str], ...] = ()


class ChatRequest(Struct, frozen=True, kw_only=True, gc=False):
    """A request in the hub format, and the client's own bytes beside it.

    ``raw`` has each top-level field of the body as the JSON bytes that the client wrote: where the upstream speaks the
    client's format they go on, only ``model`` and stream options are replaced, and fields that we do not know survive.
    ``prompt`` is set for completions, ``messages`` for chat. ``needs`` are capabilities that an answer requires
    (``tools``, ``vision``, ``logprobs``...). ``prompt_bytes`` is the UTF-8 length of all text in the prompt.
    ``unverified_user`` is what the client says about its end user: a label, never an identity. ``translation`` makes
    the body's ``Translation``, once and when it is first wanted; ``None`` where the client speaks the hub's own format.
    ``units`` is what can be known beforehand of what a request takes that is passed on as it came, and ``None`` for
    those that write text; ``form`` is its body, where that is no JSON.
    """

    arrival: Arrival
    model: str
    messages: tuple[Message, ...] = ()
    prompt: Prompt | None = None
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    needs: frozenset[str] = frozenset()
    prompt_bytes: int = 0
    unverified_user: str = ""
    raw: Mapping[str, Any] = {}
    translation: Callable[[], Translation] | None = None
    remembered: Remembered | None = None
    units: Units | None = None
    form: Form | None = None
