"""What was learned, as records of bytes to keep over a restart: one for each model of a tenant, and one for all.

They hold hashes of words with their weights, and residuals; no text, and no way back to one.
"""

import sys
from collections.abc import Iterator, Mapping
from math import isfinite

import msgspec
from msgspec import Struct

from policies.classify._feature_weights import FeatureWeights, WeightsState
from policies.classify._lengths import Lengths
from policies.classify._model_lengths import ModelLengths, Shift
from policies.classify._residuals import Spread

_RELEASE = 3
_MACHINE = sys.byteorder
_MOST_LEVEL = 20.0


class ModelRecord(Struct, frozen=True, tag="model"):
    """What one model's answers to one tenant have taught.

    ``machine`` is the order of bytes in a number. Residuals stand in the order of time, each with whether it was cut
    short.
    """

    release: int
    machine: str
    tenant: str
    model: str
    weights: WeightsState
    residuals: list[tuple[float, bool]]
    bands: list[list[tuple[float, bool]]]
    shift: Shift
    start: Spread
    bytes_per_token: float | None


class PoolRecord(Struct, frozen=True, tag="pool"):
    """How models answer, whoever asks."""

    release: int
    models: Mapping[str, Shift]


def read_record(lengths: Lengths, record: bytes) -> None:
    """Takes a record back.

    Raises:
        ValueError: it is none, or one of another release or machine.
    """
    found = msgspec.msgpack.decode(record, type=ModelRecord | PoolRecord)
    if found.release != _RELEASE:
        raise ValueError("a record of another release")
    if isinstance(found, PoolRecord):
        lengths.pools.update({model: _sane(shift) for model, shift in found.models.items()})
        return
    if found.machine != _MACHINE:
        raise ValueError("a record of another kind of machine")
    lengths.put(found.tenant, found.model, _model(found))


def records(lengths: Lengths) -> Iterator[tuple[str, bytes]]:
    """Each record with a name, made when it is asked for; the one that was seen last comes last."""
    encoder = msgspec.msgpack.Encoder()
    yield "pool", encoder.encode(PoolRecord(_RELEASE, dict(lengths.pools)))
    kept = [(tenant, model, known) for tenant, models in lengths.tenants.items() for model, known in models.items()]
    for tenant, model, known in kept:
        yield f"{tenant}\0{model}", encoder.encode(_record(tenant, model, known))


def _record(tenant: str, model: str, known: ModelLengths) -> ModelRecord:
    return ModelRecord(
        release=_RELEASE,
        machine=_MACHINE,
        tenant=tenant,
        model=model,
        weights=known.weights.state(),
        residuals=known.residuals.values(),
        bands=[band.values() for band in known.bands],
        shift=known.shift,
        start=known.start,
        bytes_per_token=known.bytes_per_token,
    )


def _model(record: ModelRecord) -> ModelLengths:
    known = ModelLengths(record.start)
    known.weights = FeatureWeights.from_state(record.weights)
    known.shift, known.bytes_per_token = _sane(record.shift), record.bytes_per_token
    for residuals, kept in zip((known.residuals, *known.bands), (record.residuals, *record.bands), strict=True):
        for residual, cut_short in kept:
            if not abs(residual) < _MOST_LEVEL:
                raise ValueError("a residual is out of bounds")
            residuals.add(residual, cut_short=cut_short)
    return known


def _sane(shift: Shift) -> Shift:
    if not (isfinite(shift.center) and isfinite(shift.deviation)) or shift.deviation < 0:
        raise ValueError("a shift is out of bounds")
    return shift
