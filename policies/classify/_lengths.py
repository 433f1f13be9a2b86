"""Forecasts of the length of answers, learned from answers: prior, features, conversation, residuals."""

from collections import OrderedDict

from msgspec import Struct

from gateway.types import ChatRequest
from policies.classify._answer_seen import AnswerSeen
from policies.classify._feature_weights import FeatureWeights
from policies.classify._features import drift_features, features
from policies.classify._length_prior import LengthPrior, to_level
from policies.classify._model_lengths import ModelLengths, Shift
from policies.classify._quantities import SYSTEM_ROLES, measure
from policies.classify._residuals import Spread

MODELS_PER_TENANT = 64
TENANTS = 256

_POOLS = 512
_PENDING = 4096
_CONVERSATIONS = 16_384
_CONVERSATION_CHARS = 256

_RATE = 0.1
_BELIEVED = 0.6
"""Of a residual no more than this is believed when weights are learned: the median counts, not the mean."""

_WIDE = 1.2
"""Where nine in ten answers stay within 3.3 times the median (e to this), a model's counts teach all they can."""

_MOST_DRIFT = 2.9


class Expected(Struct, frozen=True):
    """What the features of a request say, and what is needed to learn from the answer.

    ``prior`` is the median answer as a level by the shipped formula alone, ``level`` with all that was learned.
    """

    prior: float
    level: float
    features: list[int]
    conversation: int


class Drift(Struct):
    """How much longer than expected the answers of a conversation were."""

    answers: int = 0
    total: float = 0.0
    last: float = 0.0

    def learn(self, residual: float) -> None:
        """Takes one answer in."""
        self.last = max(-_MOST_DRIFT, min(residual, _MOST_DRIFT))
        self.answers += 1
        self.total += self.last


class TenantLengths:
    """All that was learned from one tenant's answers; nothing of it serves another."""

    __slots__ = ("models", "overall", "weights")

    def __init__(self) -> None:
        self.weights = FeatureWeights()
        self.models: OrderedDict[str, ModelLengths] = OrderedDict()
        self.overall: Spread | None = None


class Lengths:
    """The learner: ``expect`` before the answer, ``learn`` after it. Bounded in tenants, models, words and bytes."""

    def __init__(self, prior: LengthPrior, *, most_slots: int) -> None:
        self.prior = prior
        self.tenants: OrderedDict[str, TenantLengths] = OrderedDict()
        self.pools: OrderedDict[str, Shift] = OrderedDict()
        self._most_slots = most_slots
        self._pending: OrderedDict[str, Expected] = OrderedDict()
        self._drifts: OrderedDict[int, Drift] = OrderedDict()

    def expect(self, request: ChatRequest) -> Expected:
        """What the request's features say."""
        seen = measure(request)
        prior = level = self.prior.level(seen)
        found = features(request, seen)
        conversation = _conversation(request)
        if seen.turns and (drift := self._drifts.get(conversation)) is not None:
            found += drift_features(seen.turns, drift.total / drift.answers, drift.last)
        tenant = self.tenants.get(request.arrival.tenant)
        if tenant is not None:
            level += tenant.weights.total(found)
        expected = Expected(prior, level, found, conversation)
        self._pending[request.arrival.id] = expected
        if len(self._pending) > _PENDING:
            self._pending.popitem(last=False)
        return expected

    def known(self, request: ChatRequest) -> ModelLengths | None:
        """What is known of the model's answers to this tenant."""
        tenant = self.tenants.get(request.arrival.tenant)
        return tenant.models.get(request.model) if tenant is not None else None

    def start(self, request: ChatRequest) -> Spread:
        """The residuals to begin with: of this tenant's other models, of the model elsewhere, or the shipped ones."""
        tenant = self.tenants.get(request.arrival.tenant)
        if tenant is not None and tenant.overall is not None:
            return tenant.overall
        return self.pools.get(request.model, Shift(deviation=self.prior.spread)).spread()

    def learn(self, request: ChatRequest, answer: AnswerSeen) -> ModelLengths:
        """Takes an answer in, and gives what is now known of its model."""
        expected = self._pending.pop(request.arrival.id, None) or self.expect(request)
        tenant, model = self._tenant(request.arrival.tenant), self._model(request)
        level, spread = to_level(answer.tokens), model.spread()
        residual = level - expected.level - spread.p50
        if not (answer.cut_short and residual < 0):
            trust = min(1.0, (_WIDE / max(spread.p90 - spread.p50, 1e-6)) ** 2)
            believed = max(-_BELIEVED, min(residual, _BELIEVED)) / _BELIEVED
            tenant.weights.learn(expected.features, believed, _RATE * trust)
            model.shift.learn(level - expected.prior)
            self._pool(request.model).learn(level - expected.prior)
            self._drift(expected.conversation).learn(residual)
        model.residuals.add(level - expected.level, cut_short=answer.cut_short)
        tenant.overall = model.spread()
        self._forget()
        return model

    def _tenant(self, name: str) -> TenantLengths:
        found = self.tenants.setdefault(name, TenantLengths()) if name not in self.tenants else self.tenants[name]
        self.tenants.move_to_end(name)
        return found

    def _model(self, request: ChatRequest) -> ModelLengths:
        models = self.tenants[request.arrival.tenant].models
        found = models.get(request.model)
        if found is None:
            found = models[request.model] = ModelLengths(self.start(request))
            if len(models) > MODELS_PER_TENANT:
                models.popitem(last=False)
        models.move_to_end(request.model)
        return found

    def _pool(self, model: str) -> Shift:
        found = self.pools.setdefault(model, Shift(deviation=self.prior.spread))
        self.pools.move_to_end(model)
        if len(self.pools) > _POOLS:
            self.pools.popitem(last=False)
        return found

    def _drift(self, conversation: int) -> Drift:
        found = self._drifts.setdefault(conversation, Drift())
        self._drifts.move_to_end(conversation)
        if len(self._drifts) > _CONVERSATIONS:
            self._drifts.popitem(last=False)
        return found

    def _forget(self) -> None:
        """The tenants seen longest ago go first, when there are too many or their words take too much room."""
        while len(self.tenants) > 1 and (
            len(self.tenants) > TENANTS
            or sum(tenant.weights.slots for tenant in self.tenants.values()) > self._most_slots
        ):
            self.tenants.popitem(last=False)


def _conversation(request: ChatRequest) -> int:
    """Which conversation the request goes on with: one of this tenant that began with the same words."""
    for message in request.messages[:4]:
        if message.role not in SYSTEM_ROLES:
            return hash((request.arrival.tenant, request.model, message.text()[:_CONVERSATION_CHARS]))
    return 0
