"""The texts in the stream of a picture: what became of the prompt, where an event tells it."""

from gateway.errors import GuardBlocked
from gateway.types import ChatRequest
from gateway.wire.openai_errors import error_event
from gateway.wire.places import places_in
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Passing, standing_alone
from gateway.wire.upstream_json import opened_object

_COMPLETED = ".completed"


class PictureStreamTexts:
    """See ``StreamTexts``. What an event says stands alone."""

    __slots__ = ()

    def __init__(self, request: ChatRequest) -> None:
        del request  # nothing in it says how to end a stream

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        if event.data.strip() == b"[DONE]":
            return Passing(event, ends_all=True)
        fields = opened_object(event.data)
        ends_all = str(fields.get("type", "")).endswith(_COMPLETED)
        return Passing(event, standing_alone(places_in(fields, ())), ends_all=ends_all)

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``: an end needs to know nothing of what was before."""

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: pictures have no end of a filter's, so that an error says it."""
        return error_event(GuardBlocked("a guard does not let the picture pass"))
