"""Whether OpenTelemetry is on, which traces it records, and the spans' sink if it is.

Where it is off, its SDK is not even imported.
"""

from collections.abc import Callable, Mapping

from gateway.errors import ConfigurationError
from gateway.ledger.entry_sink import EntrySink
from gateway.trace_context import Sampling

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SAMPLERS: Mapping[str, float | None] = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}


def tracing_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the standard ``OTEL_*`` variables ask for traces: an endpoint, and nothing that switches them off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" and (exporter == "otlp" or any(environment.get(name) for name in _ENDPOINTS))


def read_sampling(environment: Mapping[str, str]) -> Sampling:
    """Which traces ``OTEL_TRACES_SAMPLER`` and ``OTEL_TRACES_SAMPLER_ARG`` ask for; all where they are silent.

    Raises:
        ConfigurationError: the sampler is none of the specification's, or its ratio is no number from 0 to 1.
    """
    name = environment.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    kind = name.removeprefix("parentbased_")
    if kind not in _SAMPLERS:
        known = ", ".join(f"{prefix}{one}" for prefix in ("", "parentbased_") for one in _SAMPLERS)
        raise ConfigurationError(f"unknown sampler {name!r}", where="OTEL_TRACES_SAMPLER", hint=f"use {known}")
    ratio = _SAMPLERS[kind]
    if ratio is None:
        ratio = _ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1")
    return Sampling(ratio=ratio, parent_decides=name != kind)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1
    if not 0 <= ratio <= 1:
        raise ConfigurationError(f"{text!r} is no number from 0 to 1", where="OTEL_TRACES_SAMPLER_ARG")
    return ratio


def open_spans(environment: Mapping[str, str], *, behind_proxy: Callable[[str], bool]) -> EntrySink | None:
    """The sink that exports spans over OTLP, or ``None`` where tracing is not wanted.

    ``behind_proxy`` tells whether a proxy stands before an address.

    Raises:
        ConfigurationError: the variables ask for an exporter that is not built in, or for what cannot be.
    """
    if not tracing_wanted(environment):
        return None
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter not in ("", "otlp"):
        raise ConfigurationError(
            f"unknown exporter {exporter!r}", where="OTEL_TRACES_EXPORTER", hint="use otlp or none"
        )
    from gateway.telemetry.spans import SpanSink  # noqa: PLC0415  # it costs memory and start-up time: only where wanted

    return SpanSink.over_otlp(environment, behind_proxy=behind_proxy)
