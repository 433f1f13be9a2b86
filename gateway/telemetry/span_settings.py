"""How many spans wait, what each may hold, and whom they come from, as the standard ``OTEL_*`` variables say it.

OpenTelemetry's SDK reads them too; it is 3 MiB, most of which makes spans, and ours are made elsewhere.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from opentelemetry.sdk.version import __version__ as sdk_version

from gateway.errors import ConfigurationError
from gateway.telemetry.span_records import SpanLimit

_UNSET = "unset"
_MOST_ATTRIBUTES = 128
_SERVICE_NAME = "service.name"


class Batching(NamedTuple):
    """At most ``most_waiting`` spans wait, for ``delay_ms`` or until there are ``most_sent``, which go together."""

    delay_ms: int = 5000
    most_waiting: int = 2048
    most_sent: int = 512


def read_batching(environment: Mapping[str, str]) -> Batching:
    """What ``OTEL_BSP_*`` say.

    Raises:
        ConfigurationError: one is no positive number, or more would go together than may wait.
    """
    usual = Batching()
    most_waiting = _number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", usual.most_waiting, least=1)
    usually_sent = min(usual.most_sent, most_waiting)
    found = Batching(
        delay_ms=_number(environment, "OTEL_BSP_SCHEDULE_DELAY", usual.delay_ms, least=1),
        most_waiting=most_waiting,
        most_sent=_number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", usually_sent, least=1),
    )
    if found.most_sent > found.most_waiting:
        words = f"{found.most_sent} spans cannot go together where {found.most_waiting} wait"
        raise ConfigurationError(words, where="OTEL_BSP_MAX_EXPORT_BATCH_SIZE")
    return found


def read_span_limit(environment: Mapping[str, str]) -> SpanLimit:
    """What ``OTEL_SPAN_ATTRIBUTE_*_LIMIT`` say, or ``OTEL_ATTRIBUTE_*_LIMIT`` where those are silent.

    Raises:
        ConfigurationError: one is no number.
    """
    return SpanLimit(
        attributes=_limit(environment, "ATTRIBUTE_COUNT_LIMIT", _MOST_ATTRIBUTES),
        characters=_limit(environment, "ATTRIBUTE_VALUE_LENGTH_LIMIT", None),
    )


def read_resource(environment: Mapping[str, str]) -> dict[str, str]:
    """The attributes of who sends: ``service.name`` is ``headrace`` unless the variables say otherwise.

    Raises:
        ConfigurationError: ``OTEL_RESOURCE_ATTRIBUTES`` is no list of pairs.
    """
    attributes = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": sdk_version,
        _SERVICE_NAME: "headrace",
    }
    name = "OTEL_RESOURCE_ATTRIBUTES"
    for item in filter(str.strip, environment.get(name, "").split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise ConfigurationError(f"{item.strip()!r} is no pair", where=name, hint="write key=value,key=value")
        attributes[key.strip()] = unquote(value.strip())
    return attributes | ({_SERVICE_NAME: service} if (service := environment.get("OTEL_SERVICE_NAME")) else {})


def _limit(environment: Mapping[str, str], last: str, usual: int | None) -> int | None:
    """``None`` is no limit."""
    for name in (f"OTEL_SPAN_{last}", f"OTEL_{last}"):
        text = environment.get(name, "").strip().lower()
        if text == _UNSET:
            return None
        if text:
            return _number(environment, name, 0, least=0)
    return usual


def _number(environment: Mapping[str, str], name: str, usual: int, *, least: int) -> int:
    text = environment.get(name, "").strip()
    try:
        number = int(text) if text else usual
    except ValueError:
        number = -1
    if number < least:
        raise ConfigurationError(f"{text!r} is no number from {least} on", where=name)
    return number
