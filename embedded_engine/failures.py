"""One request's trouble is not the others'."""

import logging
from collections.abc import Iterator

from embedded_engine.choice import Running
from embedded_engine.errors import DecodeFailed, RequestError
from embedded_engine.kernels.port import DecodeError
from embedded_engine.messages import Event, Failed

__all__ = ["fail", "guarded"]

_logger = logging.getLogger(__name__)


def guarded(running: Running, events: Iterator[Event]) -> Iterator[Event]:
    """The events; the request's failure where they fail."""
    try:
        yield from events
    except DecodeError as error:
        _logger.exception("a row of request %d failed", running.request.id)
        yield fail(running, DecodeFailed(str(error)))
    except RequestError as error:
        yield fail(running, error)
    except Exception as error:  # one request's trouble is not the others'
        _logger.exception("request %d failed", running.request.id)
        yield fail(running, RequestError(f"the engine failed on this request: {error}"))


def fail(running: Running, error: RequestError) -> Failed:
    """Nothing more comes of a request: what its caller is told."""
    running.abandon()
    return Failed(id=running.request.id, code=error.code, message=str(error), param=error.param)
