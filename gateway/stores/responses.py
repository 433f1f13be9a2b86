"""Answers of OpenAI's Responses that clients may ask for again, or go on from.

They lie where replicas share small facts, each under its tenant's name, for a time and within a bound of bytes: the
oldest that was kept here goes first. Going on means that the earlier turns are put before the new ones, so that any
backend can answer, whoever answered before.
"""

import re
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation import LastEvent, Remembered
from gateway.errors import InvalidRequest
from gateway.ports import Clock
from gateway.stores.kept_files import KeptFiles
from gateway.stores.shared_state import SharedState
from gateway.types import ChatRequest
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import edit
from gateway.wire.responses_request import read_response_request

_OURS = re.compile(r"resp_[0-9a-f]{24}")
_FOLDER = "responses"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_RECORD_BYTES = 1024 * 1024


class PreviousResponseNotFound(InvalidRequest):
    """The answer that a request goes on from is not kept here, or no longer."""

    code = "previous_response_not_found"


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and the items that it answers, each as JSON."""

    response: Raw
    items: tuple[Raw, ...]


class _Output(msgspec.Struct):
    id: str
    output: tuple[dict[str, Any], ...] = ()


_RECORD = msgspec.json.Decoder(KeptResponse)
_OUTPUT = msgspec.json.Decoder(_Output)
_INPUT = msgspec.json.Decoder(str | tuple[Raw, ...] | None)


class Places(Protocol):
    """Where answers lie: the half of the ``Shared`` port that finds them by their names."""

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """See ``Shared.put``."""
        ...

    def get(self, key: str) -> tuple[str, float] | None:
        """See ``Shared.get``."""
        ...


class ResponseMemory:
    """Keeps answers for ``kept_s`` seconds.

    Args:
        shared: where they lie.
        kept_s: for how long; zero keeps none.
        most_bytes: how much is kept of what was answered here.
    """

    def __init__(self, shared: Places, *, kept_s: float, most_bytes: int = _MOST_BYTES) -> None:
        self._shared = shared
        self._kept_s = kept_s
        self._most_bytes = most_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def get(self, tenant: str, response_id: str) -> KeptResponse | None:
        """The tenant's own answer of that name, or ``None``."""
        found = self._shared.get(_key(tenant, response_id))
        return None if found is None else _RECORD.decode(found[0])

    def forget(self, tenant: str, response_id: str) -> bool:
        """Whether there was such an answer; now there is none."""
        known = self.get(tenant, response_id) is not None
        self._drop(_key(tenant, response_id))
        return known

    def remembering(self, request: ChatRequest, limits: BodyLimits) -> ChatRequest:
        """The request with the turns that it goes on from, its answer kept unless it says ``store: false``.

        Raises:
            PreviousResponseNotFound: it goes on from an answer of ours that is not kept any more.
            InvalidRequest: all turns together are more than the limits allow.
        """
        previous_id = msgspec.json.decode(request.raw.get("previous_response_id") or b"null")
        if previous_id is not None:
            request = self._continued(request, previous_id, limits)
        keep = None
        if self._kept_s > 0 and bytes(request.raw.get("store") or b"null") != b"false":
            keep = partial(self._keep, request.arrival.tenant, _items(request))
        return replace(request, remembered=Remembered(last=LastEvent(), keep=keep, previous_id=previous_id or ""))

    def _continued(self, request: ChatRequest, previous_id: str, limits: BodyLimits) -> ChatRequest:
        """An answer that somebody else keeps is left to whoever can look it up."""
        previous = self.get(request.arrival.tenant, previous_id)
        if previous is None:
            if _OURS.fullmatch(previous_id):
                raise PreviousResponseNotFound(
                    "the response to go on from is not kept here, or no longer", param="previous_response_id"
                )
            return request
        said = [Raw(msgspec.json.encode(item)) for item in map(_again, _output(previous)) if item is not None]
        items = (*previous.items, *said, *_items(request))
        body = edit(request.raw, {"input": msgspec.json.encode(items), "previous_response_id": None})
        return read_response_request(request.arrival, body, limits)

    def _keep(self, tenant: str, items: tuple[Raw, ...], response: bytes) -> None:
        try:
            name = _OUTPUT.decode(response).id
        except msgspec.DecodeError:  # another's answer, of a shape that nobody can go on from
            return
        record = msgspec.json.encode(KeptResponse(response=Raw(response), items=items))
        if len(record) > _MOST_RECORD_BYTES:
            return
        key = _key(tenant, name)
        self._drop(key)
        self._shared.put(key, record.decode(), self._kept_s)
        self._sizes[key] = len(record)
        self._bytes += len(record)
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._sizes)))

    def _drop(self, key: str) -> None:
        self._bytes -= self._sizes.pop(key, 0)
        self._shared.put(key, "", 0)


def open_responses(shared: SharedState, run_dir: Path | None, clock: Clock, *, kept_s: float) -> ResponseMemory:
    """What all who may be asked for an answer again can see: replicas the facts they share, workers one directory."""
    if run_dir is None or shared.replicas is not None:
        return ResponseMemory(shared.facts, kept_s=kept_s)
    return ResponseMemory(KeptFiles(run_dir / _FOLDER, clock), kept_s=kept_s)


def _key(tenant: str, response_id: str) -> str:
    return f"response/{tenant}/{response_id}"


def _items(request: ChatRequest) -> tuple[Raw, ...]:
    """The items of a request's input, which may have none where it goes on from something."""
    said = _INPUT.decode(request.raw.get("input") or b"null")
    if isinstance(said, str):
        return (Raw(msgspec.json.encode({"role": "user", "content": said})),)
    return said or ()


def _output(kept: KeptResponse) -> tuple[dict[str, Any], ...]:
    return _OUTPUT.decode(kept.response).output


def _again(item: dict[str, Any]) -> dict[str, Any] | None:
    """An output item as the next turn's input. Names are its provider's; a bare thought means nothing to others."""
    if item.get("type") == "reasoning" and not item.get("encrypted_content") and not item.get("summary"):
        return None
    return {name: value for name, value in item.items() if name not in {"id", "status"}}
