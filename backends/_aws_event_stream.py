"""AWS's event streams, taken apart by botocore's parser; imported when a backend starts."""

import struct

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError

from gateway.errors import UpstreamInvalid
from gateway.wire.converse_reader import ConverseEvent


class AwsEventParser:
    """See ``EventParser``. A frame of more than 24 MiB, which is botocore's limit, is none."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()

    def feed(self, data: bytes) -> list[ConverseEvent]:
        """See ``EventParser.feed``."""
        self._buffer.add_data(data)
        try:
            return [_event(message) for message in self._buffer]
        except (ParserError, UnicodeDecodeError, KeyError, struct.error) as error:
            raise UpstreamInvalid("the upstream sent what is no frame of an event stream") from error


def _event(message: EventStreamMessage) -> ConverseEvent:
    headers = message.headers
    match headers.get(":message-type"):
        case "event":
            return ConverseEvent(str(headers.get(":event-type", "")), message.payload)
        case "exception":
            return ConverseEvent(str(headers.get(":exception-type", "")), message.payload, failed=True)
        case _:
            return ConverseEvent(str(headers.get(":error-code", "")), message.payload, failed=True)
