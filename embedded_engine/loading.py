"""Loads a model, tests and measures it, and says how large its memory is made."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from embedded_engine.condition import Ready, SelfTest
from embedded_engine.errors import LoadFailed, ModelNotFound, StartError
from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.curves import Curves, measure_curves
from embedded_engine.kernels.port import ContextShape, DecodeError, Kernels
from embedded_engine.kernels.self_test import open_tested_context
from embedded_engine.measured import CostPoint
from embedded_engine.prompt import PromptReader
from embedded_engine.settings import DEFAULT_CONTEXT_TOKENS, DEFAULT_LANES, EngineSettings, default_threads
from embedded_engine.speculation.draft_model import DraftModel, same_vocabulary
from embedded_engine.speculative import DRAFTERS
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Loaded", "load_model"]

_logger = logging.getLogger(__name__)

_LEAST_BATCH_ROWS = 64
"""The self-test wants a batch of this size, whatever the steps."""

_LEAST_SEQUENCES = 8
"""Measuring attention fills a lane with copies of a short sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that can serve.

    Attributes:
        kernels: They compute it.
        shape: Of their lanes.
        context_tokens: Prompt and answer of one choice.
        self_test: What they said about themselves.
        curves: What rows cost.
        vocabulary: The model's tokens.
        reader: Reads its prompts.
        draft_model: A second model that drafts, where there is one of the same vocabulary.
        speculates: Whether tokens are drafted: the settings allow it, and what is wrong can be forgotten.
    """

    kernels: Kernels
    shape: ContextShape
    context_tokens: int
    self_test: SelfTest
    curves: Curves
    vocabulary: Vocabulary
    reader: PromptReader
    draft_model: DraftModel | None
    speculates: bool

    @property
    def rounding(self) -> float:
        """How far a logit may be off that can be computed again; a model that forgets no tails computes none again."""
        return self.self_test.max_logit_error if self.kernels.facts.forgets_tails else 0.0

    def ready(self, settings: EngineSettings) -> Ready:
        """What is said of it to whoever started it."""
        facts = self.kernels.facts
        return Ready(
            model=settings.model_name or Path(settings.model_path).name,
            path=settings.model_path,
            sha256=settings.sha256,
            quantisation=facts.quantisation,
            description=facts.description,
            kernels=self.kernels.name,
            context_tokens=self.context_tokens,
            kv_tokens=self.shape.lanes * self.shape.kv_tokens,
            lanes=self.shape.lanes,
            slots=settings.slots,
            queue_limit=settings.queue_limit,
            vocabulary_tokens=facts.vocabulary_tokens,
            has_chat_template=self.reader.has_chat_template,
            self_test=self.self_test,
            thinks=self.reader.marks is not None,
            tool_format=self.reader.family.name,
            keeps_prefixes=settings.prefix_cache_bytes > 0,
            drafters=DRAFTERS if self.speculates else (),
            verify_costs=tuple(CostPoint(rows, seconds) for rows, seconds in self.curves.verify_s.items()),
            batch_costs=tuple(CostPoint(rows, seconds) for rows, seconds in self.curves.batch_s.items()),
        )


def load_model(settings: EngineSettings, kernels: Kernels | None) -> Loaded:
    """Make a model ready.

    Raises:
        StartError: There is no such file, no kernels, or they refuse the model.
    """
    kernels = kernels or _load(settings)
    context_tokens = settings.context_tokens or min(kernels.facts.context_tokens, DEFAULT_CONTEXT_TOKENS)
    shape = _shape(settings, context_tokens)
    self_test = open_tested_context(kernels, shape)
    try:
        curves = measure_curves(kernels, shape)
    except DecodeError as error:
        raise LoadFailed(f"the kernels cannot be measured: {error}") from error
    vocabulary = Vocabulary(kernels)
    speculates = settings.speculation and kernels.facts.forgets_tails
    return Loaded(
        kernels=kernels,
        shape=shape,
        context_tokens=context_tokens,
        self_test=self_test,
        curves=curves,
        vocabulary=vocabulary,
        reader=PromptReader(kernels, vocabulary, template=_chat_template(settings)),
        draft_model=_draft_model(settings, shape, context_tokens, vocabulary) if speculates else None,
        speculates=speculates,
    )


def _chat_template(settings: EngineSettings) -> str | None:
    """The template that stands in for the model file's own."""
    if not settings.chat_template:
        return None
    try:
        return Path(settings.chat_template).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadFailed(f"the chat template {settings.chat_template} cannot be read: {error}") from error


def _draft_model(
    settings: EngineSettings, shape: ContextShape, context_tokens: int, vocabulary: Vocabulary
) -> DraftModel | None:
    """The model of `settings.draft_model_path`; None, and a line in the log, where it cannot be used."""
    if not settings.draft_model_path:
        return None
    try:
        kernels = load_kernels(settings.draft_model_path, settings.kernels)
        if not same_vocabulary(vocabulary, Vocabulary(kernels)):
            raise LoadFailed("its vocabulary is another one")
        context_tokens = min(context_tokens, kernels.facts.context_tokens)
        sequences = settings.slots
        shape = replace(shape, lanes=1, kv_tokens=sequences * context_tokens, sequences=sequences)
        row_s = open_tested_context(kernels, shape).decode_s_per_token
    except StartError as error:
        _logger.warning("tokens are drafted without the model %s: %s", settings.draft_model_path, error)
        return None
    return DraftModel(
        kernels, sequences=sequences, context_tokens=context_tokens, batch_rows=shape.batch_rows, row_s=row_s
    )


def _shape(settings: EngineSettings, context_tokens: int) -> ContextShape:
    lanes = settings.lanes or min(DEFAULT_LANES, settings.slots)
    kv_tokens = settings.kv_tokens or max(lanes, settings.slots // 2) * context_tokens
    return ContextShape(
        lanes=lanes,
        kv_tokens=max(kv_tokens // lanes, min(context_tokens, kv_tokens)),
        sequences=max(settings.slots, _LEAST_SEQUENCES),
        threads=settings.threads or default_threads(),
        batch_rows=max(settings.step_tokens, _LEAST_BATCH_ROWS),
        micro_batch_rows=settings.micro_batch_rows,
    )


def _load(settings: EngineSettings) -> Kernels:
    if not Path(settings.model_path).is_file():
        raise ModelNotFound(f"there is no model file {settings.model_path}")
    return load_kernels(settings.model_path, settings.kernels)
