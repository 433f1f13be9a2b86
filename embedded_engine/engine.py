"""Serves many requests on one model, in one thread.

    engine = Engine(EngineSettings(model_path="model.gguf"))
    engine.submit(engine.prepare(Generate(id=1, text="Once", max_tokens=8)))
    while engine.busy:
        for event in engine.step():  # Text..., one Done for each choice, or Failed
            ...

A request that fails, by its own numbers or together with the batch it was in, never takes the loop down.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from embedded_engine.errors import DecodeFailed, ModelNotFound, RequestError
from embedded_engine.intake import Intake, Limits, Prepared
from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.port import ContextShape, DecodeError, Kernels
from embedded_engine.kernels.self_test import open_tested_context
from embedded_engine.messages import Accepted, CountTokens, Done, Failed, Generate, Ready, Text
from embedded_engine.prompt import PromptReader
from embedded_engine.sampler import draw
from embedded_engine.scheduler import Choice, Planned, Running, Scheduler
from embedded_engine.settings import DEFAULT_CONTEXT_TOKENS, EngineSettings, default_threads
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Engine"]

_logger = logging.getLogger(__name__)

_LEAST_BATCH_ROWS = 64
"""The self-test wants a batch of this size, whatever the steps."""


class Engine:
    """One model and its running requests.

    `prepare` and `count_tokens` may be called from any thread, all else from one.

    Args:
        settings: The model, and how much of the machine it may use.
        kernels: A loaded model to compute with; None: load `settings.model_path`.

    Attributes:
        ready: What was loaded, and what its self-test measured.
        steps: Decode calls since the start.
        drawn_tokens: New tokens since the start.
        prefilled_tokens: Prompt tokens since the start.

    Raises:
        StartError: There is no such file, no kernels, or they refuse the model.
    """

    def __init__(self, settings: EngineSettings, kernels: Kernels | None = None) -> None:
        self._kernels = kernels or _load(settings)
        facts = self._kernels.facts
        context_tokens = settings.context_tokens or min(facts.context_tokens, DEFAULT_CONTEXT_TOKENS)
        kv_tokens = settings.kv_tokens or settings.slots * context_tokens
        self_test = open_tested_context(self._kernels, _shape(settings, kv_tokens))
        self._vocabulary = Vocabulary(self._kernels)
        reader = PromptReader(self._kernels, self._vocabulary)
        limits = Limits(context_tokens=context_tokens, kv_tokens=kv_tokens, slots=settings.slots)
        self._intake = Intake(reader, self._vocabulary, limits)
        self._scheduler = Scheduler(
            slots=settings.slots,
            kv_tokens=kv_tokens,
            step_tokens=settings.step_tokens,
            queue_limit=settings.queue_limit,
        )
        self.steps = 0
        self.drawn_tokens = 0
        self.prefilled_tokens = 0
        self.ready = Ready(
            model=settings.model_name or Path(settings.model_path).name,
            path=settings.model_path,
            sha256=settings.sha256,
            quantisation=facts.quantisation,
            description=facts.description,
            kernels=self._kernels.name,
            context_tokens=context_tokens,
            kv_tokens=kv_tokens,
            slots=settings.slots,
            queue_limit=settings.queue_limit,
            vocabulary_tokens=facts.vocabulary_tokens,
            has_chat_template=reader.has_chat_template,
            self_test=self_test,
        )

    @property
    def busy(self) -> bool:
        """Whether a step would have anything to do."""
        return bool(self._scheduler.queue or self._scheduler.running)

    @property
    def queued(self) -> int:
        """Requests waiting for a slot."""
        return len(self._scheduler.queue)

    @property
    def running(self) -> int:
        """Choices that hold a slot."""
        return self._scheduler.slots - len(self._scheduler.free_slots)

    @property
    def free_kv_tokens(self) -> int:
        """Cells not promised to anybody."""
        return self._scheduler.free_kv_tokens

    @property
    def requests(self) -> tuple[int, ...]:
        """The numbers of all requests, queued or running."""
        return (*(request.id for request in self._scheduler.queue), *self._scheduler.running)

    def prepare(self, request: Generate) -> Prepared:
        """Check a request and read its prompt; it takes no slot yet.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        return self._intake.prepare(request)

    def count_tokens(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is.

        Raises:
            RequestError: It cannot be read.
        """
        return self._intake.count(request)

    def submit(self, request: Prepared) -> Accepted:
        """Put a request into the queue; its other events come from `step`.

        Raises:
            QueueFull: Too many wait already.
        """
        self._scheduler.add(request)
        return Accepted(id=request.id, prompt_tokens=len(request.prompt))

    def cancel(self, number: int) -> None:
        """Drop a request, queued or running.

        Its slots are free at once and no event of it follows. Unknown ids are ignored.
        """
        self._scheduler.drop_queued(number)
        if running := self._scheduler.running.get(number):
            self._release(running)

    def step(self) -> list[Text | Done | Failed]:
        """Schedule, run, emit, release: one decode call, and what came of it."""
        planned = self._scheduler.plan()
        events = self._run(planned) or list(self._emit(planned))
        for running in [running for running in self._scheduler.running.values() if running.over]:
            self._release(running)
        return events

    def close(self) -> None:
        """Free the model."""
        self._kernels.close()

    def _run(self, planned: Sequence[Planned]) -> list[Text | Done | Failed]:
        """Decode the rows; the failures of all requests in the batch if the kernels fail."""
        if not planned:
            return []
        self.steps += 1
        try:
            self._kernels.decode([item.row for item in planned])
        except DecodeError as error:
            _logger.exception("a batch of %d rows failed", len(planned))
            failed = {item.running.request.id: item.running for item in planned}
            return [self._fail(running, DecodeFailed(str(error))) for running in failed.values()]
        for item in planned:
            if item.choice is None:
                item.running.prefilled_tokens += 1
                self.prefilled_tokens += 1
        return []

    def _emit(self, planned: Sequence[Planned]) -> Iterator[Text | Done | Failed]:
        """Draw a token for each row that has logits, and say what it adds to its text."""
        for index, item in enumerate(planned):
            if not item.row.wants_logits or item.running.over:
                continue
            try:
                choices = [item.choice] if item.choice else self._share_prompt(item.running)
                for choice in choices:
                    yield from self._extend(item.running, choice, row=index)
            except RequestError as error:
                yield self._fail(item.running, error)
            except Exception as error:  # one request's trouble is not the others'
                _logger.exception("request %d failed", item.running.request.id)
                yield self._fail(item.running, RequestError(f"the engine failed on this request: {error}"))

    def _share_prompt(self, running: Running) -> list[Choice]:
        """The prompt is decoded, in the first choice's slot: let the others have it too."""
        first, *others = running.choices
        for choice in others:
            if first.slot is not None and choice.slot is not None:
                self._kernels.copy(first.slot, choice.slot)
        return running.choices

    def _extend(self, running: Running, choice: Choice, *, row: int) -> Iterator[Text | Done]:
        request = running.request
        token = draw(self._kernels.logits(row), request.sampling, choice=choice.index, position=choice.drawn_tokens)
        if token in self._vocabulary.ends:
            yield from self._end(running, choice, "stop", choice.stops.flush())
            return
        self.drawn_tokens += 1
        choice.drawn_tokens += 1
        choice.unreported_tokens += 1
        choice.next_token = token
        text = choice.stops.feed(choice.characters.feed(self._vocabulary.pieces[token]))
        if choice.stops.matched is not None:
            yield from self._end(running, choice, "stop", text)
        elif choice.drawn_tokens >= request.max_tokens:
            yield from self._end(running, choice, "length", text + choice.stops.flush())
        elif text:
            yield _text(request.id, choice, text)

    def _end(
        self, running: Running, choice: Choice, reason: Literal["stop", "length"], text: str
    ) -> Iterator[Text | Done]:
        """The choice's last events; its slot is free from here on."""
        number = running.request.id
        self._free(choice)
        if text:
            yield _text(number, choice, text)
        yield Done(id=number, choice=choice.index, reason=reason, completion_tokens=choice.drawn_tokens)

    def _fail(self, running: Running, error: RequestError) -> Failed:
        for choice in running.choices:
            self._free(choice)
        return Failed(id=running.request.id, code=error.code, message=str(error), param=error.param)

    def _release(self, running: Running) -> None:
        for choice in running.choices:
            self._free(choice)
        self._scheduler.forget(running)

    def _free(self, choice: Choice) -> None:
        slot = self._scheduler.free(choice)
        if slot is not None:
            self._kernels.remove(slot)


def _text(number: int, choice: Choice, text: str) -> Text:
    tokens, choice.unreported_tokens = choice.unreported_tokens, 0
    return Text(id=number, choice=choice.index, text=text, tokens=tokens)


def _shape(settings: EngineSettings, kv_tokens: int) -> ContextShape:
    return ContextShape(
        kv_tokens=kv_tokens,
        sequences=settings.slots,
        threads=settings.threads or default_threads(),
        batch_rows=max(settings.step_tokens, _LEAST_BATCH_ROWS),
        micro_batch_rows=settings.micro_batch_rows,
    )


def _load(settings: EngineSettings) -> Kernels:
    if not Path(settings.model_path).is_file():
        raise ModelNotFound(f"there is no model file {settings.model_path}")
    return load_kernels(settings.model_path, settings.kernels)
