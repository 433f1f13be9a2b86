"""Forecasts of the length of answers, learned from answers: prior, features, conversation, residuals."""

from collections import OrderedDict

from msgspec import Struct

from gateway.types import ChatRequest
from policies.classify._answer_seen import AnswerSeen
from policies.classify._features import drift_features, features
from policies.classify._length_prior import LengthPrior, to_level
from policies.classify._model_lengths import ModelLengths, Shift
from policies.classify._packed import Packed
from policies.classify._quantities import SYSTEM_ROLES, measure
from policies.classify._residuals import Spread
from policies.classify._word_numbers import word_numbers

MODELS_PER_TENANT = 64
TENANTS = 256

_POOLS = 512
_CONVERSATIONS = 16_384
_CONVERSATION_CHARS = 256

_RATE = 0.09
_BELIEVED = 0.5
"""Of a residual no more than this is believed when weights are learned: the median counts, not the mean."""

_AS_EXPECTED = 0.02
_OF_THOSE = 8

_WIDE = 1.2
"""Where nine in ten answers stay within 3.3 times the median (e to this), a model's counts teach all they can."""

_MOST_DRIFT = 2.9


class Expected(Struct, frozen=True):
    """What the features of a request say, and what is needed to learn from the answer.

    ``prior`` is the median answer as a level by the shipped formula alone, ``level`` with all that was learned. It is
    made anew for learning: few answers are learned from, and for the others nothing is kept while they are under way.
    """

    prior: float
    level: float
    features: Packed


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


class Lengths:
    """The learner: ``expect`` before the answer, ``learn`` after it. Bounded in tenants, models and bytes.

    What one model's answers to one tenant have taught serves no other pair: neither can a tenant's words be felt in
    another's forecasts, nor a backend that miscounts spoil those of another model. Only how much longer or shorter a
    model answers than the shipped formula says is known whoever asks.
    """

    def __init__(self, prior: LengthPrior, *, most_slots: int) -> None:
        self.prior = prior
        self.tenants: OrderedDict[str, OrderedDict[str, ModelLengths]] = OrderedDict()
        self.pools: OrderedDict[str, Shift] = OrderedDict()
        self._most_slots = most_slots
        self._drifts: OrderedDict[int, Drift] = OrderedDict()

    def expect(self, request: ChatRequest, known: ModelLengths | None) -> Expected:
        """What the request's features say, with what is ``known`` of the model's answers to this tenant."""
        seen = measure(request)
        found = features(request, seen)
        if seen.answers and (drift := self._drifts.get(_conversation(request))) is not None:
            found += drift_features(seen.turns, drift.total / drift.answers, drift.last)
        packed = word_numbers(seen.words).joined(Packed.of(found))
        prior = self.prior.level(seen)
        return Expected(prior, prior if known is None else prior + known.weights.total(packed), packed)

    def known(self, request: ChatRequest) -> ModelLengths | None:
        """What is known of the model's answers to this tenant."""
        models = self.tenants.get(request.arrival.tenant)
        return models.get(request.model) if models is not None else None

    def start(self, request: ChatRequest) -> Spread:
        """The residuals to begin with: those of the model's answers to others, or the shipped ones."""
        return self.pools.get(request.model, Shift(deviation=self.prior.spread)).spread()

    def learn(self, request: ChatRequest, answer: AnswerSeen) -> ModelLengths:
        """Takes an answer in, and gives what is now known of its model, which was ``put`` before."""
        model = self._latest(request)
        expected = self.expect(request, model)
        level, spread = to_level(answer.tokens), model.spread(expected.level)
        residual = level - expected.level - spread.p50
        if not (answer.cut_short and residual < 0):
            trust = min(1.0, (_WIDE / max(spread.p90 - spread.p50, 1e-6)) ** 2)
            believed = max(-_BELIEVED, min(residual, _BELIEVED)) / _BELIEVED
            self._learn_weights(model, expected, believed, trust)
            model.shift.learn(level - expected.prior)
            self._pool(request.model).learn(level - expected.prior)
            self._drift(_conversation(request)).learn(residual)
        model.learn(expected.level, level - expected.level, cut_short=answer.cut_short)
        return model

    def _learn_weights(self, model: ModelLengths, expected: Expected, believed: float, trust: float) -> None:
        """Answers much as expected change next to nothing, and so only every eighth of them is learned from."""
        stands_for = _OF_THOSE if abs(believed) < _AS_EXPECTED else 1
        if model.residuals.seen % stands_for:
            return
        slots = model.weights.slots
        model.weights.learn(expected.features, believed, _RATE * trust, answers=stands_for)
        if model.weights.slots != slots:
            self.keep_within_bounds()

    def keep_within_bounds(self) -> None:
        """Forgets the tenants seen longest ago, and of the only one the models, while their weights take too much."""
        while len(self.tenants) > TENANTS or self._slots() > self._most_slots:
            models = next(iter(self.tenants.values()))
            if len(self.tenants) > 1:
                self.tenants.popitem(last=False)
            elif len(models) > 1:
                models.popitem(last=False)
            else:
                return

    def put(self, tenant: str, model: str, known: ModelLengths) -> None:
        """Begins with a model, or with what was known of it before."""
        models = self.tenants.setdefault(tenant, OrderedDict())
        models[model] = known
        if len(models) > MODELS_PER_TENANT:
            models.popitem(last=False)
        self.keep_within_bounds()

    def _slots(self) -> int:
        return sum(model.weights.slots for models in self.tenants.values() for model in models.values())

    def _latest(self, request: ChatRequest) -> ModelLengths:
        """The model's lengths, as those that were asked for last: they are forgotten last."""
        tenant, models = request.arrival.tenant, self.tenants[request.arrival.tenant]
        self.tenants.move_to_end(tenant)
        models.move_to_end(request.model)
        return models[request.model]

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


def _conversation(request: ChatRequest) -> int:
    """Which conversation the request goes on with: one of this tenant that began with the same words."""
    for message in request.messages[:4]:
        if message.role not in SYSTEM_ROLES:
            return hash((request.arrival.tenant, request.model, message.text()[:_CONVERSATION_CHARS]))
    return 0
