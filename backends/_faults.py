"""Scripted faults of the fake backend, one for each way in which real upstreams fail."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

FaultKind = Literal["refuse", "status", "error", "cut", "reset", "hang", "stall", "garbage", "empty"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong in one call.

    ===========  ============================================================================
    ``refuse``   there is no connection
    ``status``   an HTTP answer of ``status``, with ``retry_after_s`` and the error's ``code`` where given
    ``hang``     the request is taken and nothing ever comes back
    ``empty``    200 and no byte
    ``garbage``  200 and what is no answer
    ``error``    an error inside the answer, after ``after_chunks``, with its ``code`` where given
    ``cut``      a clean end after ``after_chunks``, which is too early
    ``reset``    the connection breaks in the middle of the piece after ``after_chunks``
    ``stall``    nothing more comes after ``after_chunks``
    ===========  ============================================================================

    A whole answer is two pieces, so that it too can be cut in its middle.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    kind: FaultKind
    status: int = 500
    retry_after_s: float | None = None
    code: str | None = None
    after_chunks: int = 1
