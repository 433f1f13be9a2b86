from collections.abc import Callable, Mapping

import pytest

from gateway.errors import ConfigurationError
from gateway.telemetry.span_records import SpanLimit
from gateway.telemetry.span_settings import Batching, read_batching, read_resource, read_span_limit

DELAY, WAITING, SENT = "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Batching(delay_ms=5000, most_waiting=2048, most_sent=512)),
        ({DELAY: "100", WAITING: " 64 ", SENT: "64"}, Batching(delay_ms=100, most_waiting=64, most_sent=64)),
        ({DELAY: ""}, Batching()),
        ({WAITING: "100"}, Batching(most_waiting=100, most_sent=100)),
    ],
)
def test_batches_are_those_of_the_specification(environment: Mapping[str, str], expected: Batching) -> None:
    """Its defaults hold where nothing is said."""
    assert expected == read_batching(environment)


@pytest.mark.parametrize(
    ("environment", "attributes", "characters"),
    [
        ({}, 128, None),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "7", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "9"}, 7, 9),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "7", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0"}, 0, None),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "7", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "Unset"}, None, None),
    ],
)
def test_limits_of_spans_go_before_those_of_everything(
    environment: Mapping[str, str], attributes: int | None, characters: int | None
) -> None:
    """And `unset` is none at all."""
    assert SpanLimit(attributes=attributes, characters=characters) == read_span_limit(environment)


def test_a_resource_is_what_it_is_called() -> None:
    """Its attributes are decoded, and the service's own variable goes before them."""
    given = {"OTEL_RESOURCE_ATTRIBUTES": "host.name=edge%201, service.name=theirs,", "OTEL_SERVICE_NAME": "ours"}
    found = read_resource(given)
    assert ("edge 1", "ours") == (found["host.name"], found["service.name"])
    assert "headrace" == read_resource({})["service.name"]


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        (read_batching, DELAY, "soon"),
        (read_batching, DELAY, "0"),
        (read_batching, WAITING, "-1"),
        (read_batching, SENT, "4096"),
        (read_span_limit, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
        (read_span_limit, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "-3"),
        (read_resource, "OTEL_RESOURCE_ATTRIBUTES", "a=b,edge"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    read: Callable[[Mapping[str, str]], object], name: str, value: str
) -> None:
    """The variable that is wrong is named, at the start."""
    with pytest.raises(ConfigurationError) as caught:
        read({name: value})
    assert name == caught.value.where
