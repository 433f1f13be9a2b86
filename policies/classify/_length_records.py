"""What was learned, as records of bytes to keep over a restart: one for each tenant, and one for all models.

They hold hashes of words with their weights, and residuals; no text, and no way back to one.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from sys import byteorder

import msgspec
from msgspec import Struct

from policies.classify._feature_weights import FeatureWeights, WeightsState
from policies.classify._lengths import MODELS_PER_TENANT, Lengths, TenantLengths
from policies.classify._model_lengths import ModelLengths, Shift
from policies.classify._residuals import Spread

_RELEASE = 1
_MOST_LEVEL = 20.0


class ModelRecord(Struct, frozen=True):
    """One model's answers to a tenant: residuals in the order of time, each with whether it was cut short."""

    residuals: list[tuple[float, bool]]
    shift: Shift
    start: Spread
    bytes_per_token: float | None


class TenantRecord(Struct, frozen=True, tag="tenant"):
    """All that was learned from one tenant."""

    release: int
    byte_order: str
    tenant: str
    weights: WeightsState
    models: Mapping[str, ModelRecord]


class PoolRecord(Struct, frozen=True, tag="models"):
    """How models answer, whoever asks."""

    release: int
    models: Mapping[str, Shift]


def read_record(lengths: Lengths, record: bytes) -> None:
    """Takes a record back.

    Raises:
        ValueError: it is none, or one of another release or machine.
    """
    found = msgspec.msgpack.decode(record, type=TenantRecord | PoolRecord)
    if found.release != _RELEASE:
        raise ValueError("a record of another release")
    if isinstance(found, PoolRecord):
        lengths.pools.update({model: _sane(shift) for model, shift in found.models.items()})
        return
    if found.byte_order != byteorder:
        raise ValueError("a record of another machine")
    tenant = TenantLengths()
    tenant.weights = FeatureWeights.from_state(found.weights)
    for name, model in list(found.models.items())[-MODELS_PER_TENANT:]:
        tenant.models[name] = restored = _model(model)
        tenant.overall = restored.spread()
    lengths.tenants[found.tenant] = tenant


def records(lengths: Lengths) -> Iterator[tuple[str, bytes]]:
    """Each record with a name, one at a time; the tenant that was seen last comes last."""
    encoder = msgspec.msgpack.Encoder()
    yield "models", encoder.encode(PoolRecord(_RELEASE, dict(lengths.pools)))
    for name, tenant in list(lengths.tenants.items()):
        models = {
            model: ModelRecord(known.residuals.values(), known.shift, known.start, known.bytes_per_token)
            for model, known in tenant.models.items()
        }
        yield f"tenant {name}", encoder.encode(TenantRecord(_RELEASE, byteorder, name, tenant.weights.state(), models))


def _model(record: ModelRecord) -> ModelLengths:
    known = ModelLengths(record.start)
    known.shift, known.bytes_per_token = _sane(record.shift), record.bytes_per_token
    for residual, cut_short in record.residuals:
        if not abs(residual) < _MOST_LEVEL:
            raise ValueError("a residual is out of bounds")
        known.residuals.add(residual, cut_short=cut_short)
    return known


def _sane(shift: Shift) -> Shift:
    if not (isfinite(shift.center) and isfinite(shift.deviation)) or shift.deviation < 0:
        raise ValueError("a shift is out of bounds")
    return shift
