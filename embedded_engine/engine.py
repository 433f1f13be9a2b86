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

from embedded_engine.choice import Choice, Running
from embedded_engine.emission import Emission
from embedded_engine.errors import DecodeFailed, ModelNotFound, RequestError
from embedded_engine.intake import Intake, Limits, Prepared
from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.port import ContextShape, DecodeError, Kernels
from embedded_engine.kernels.self_test import open_tested_context
from embedded_engine.messages import Accepted, CountTokens, Done, Failed, Generate, Ready, Text
from embedded_engine.prompt import PromptReader
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.scheduler import Planned, Scheduler
from embedded_engine.settings import DEFAULT_CONTEXT_TOKENS, EngineSettings, default_threads
from embedded_engine.speculation.costs import estimated_costs
from embedded_engine.speculation.speculator import Draft, Speculator
from embedded_engine.speculation.verification import walk
from embedded_engine.speculative import NEVER
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
            begin=self._begin,
        )
        self._speculates = settings.speculation
        self._speculator = Speculator(estimated_costs(self_test), end_tokens=self._vocabulary.ends)
        self._emission = Emission(self._vocabulary)
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
            thinks=reader.marks is not None,
            tool_format=reader.family.name,
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
            running.abandon()
            self._free_what_is_over(running)

    def step(self) -> list[Text | Done | Failed]:
        """Schedule, run, verify, emit, release: one decode call, and what came of it."""
        planned = self._scheduler.plan(self._plan_drafts)
        events = self._run(planned) or [event for item in planned for event in self._verify(item)]
        self._release_what_is_over()
        return events

    def close(self) -> None:
        """Free the model."""
        self._kernels.close()

    def _begin(self, request: Prepared) -> Running:
        running = Running(request=request)
        running.choices += [
            Choice(
                running=running,
                index=index,
                chooser=self._new_chooser(request, index),
                draft=self._new_draft(request),
                tokens=list(request.prompt),
                transcript=request.plan.transcript(),
            )
            for index in range(request.n)
        ]
        return running

    def _new_draft(self, request: Prepared) -> Draft:
        return self._speculator.begin(
            request.prompt,
            scope=request.scope,
            prediction=request.prediction,
            wanted=request.speculative if self._speculates else NEVER,
            temperature=request.sampling.temperature,
        )

    def _new_chooser(self, request: Prepared, index: int) -> Chooser:
        grammar = request.new_grammar() if request.new_grammar is not None else None
        ends, budget = self._vocabulary.ends, request.plan.budget()
        return Chooser(request.sampling, choice=index, prompt=request.prompt, ends=ends, grammar=grammar, budget=budget)

    def _plan_drafts(self, choices: Sequence[Choice], room_rows: int) -> list[tuple[int, ...]]:
        # A choice's last token needs no cell: what is drafted beyond it would be computed for nothing.
        return self._speculator.plan(
            [choice.draft for choice in choices],
            forced=[choice.chooser.forced() for choice in choices],
            most=[choice.room_tokens - 1 for choice in choices],
            room_rows=room_rows,
        )

    def _run(self, planned: Sequence[Planned]) -> list[Text | Done | Failed]:
        """Decode the rows; the failures of all requests in the batch if the kernels fail."""
        if not planned:
            return []
        self.steps += 1
        try:
            self._kernels.decode([row for item in planned for row in item.rows])
        except DecodeError as error:
            _logger.exception("a batch for %d choices failed", len(planned))
            failed = {item.choice.running.request.id: item.choice.running for item in planned}
            return [_fail(running, DecodeFailed(str(error))) for running in failed.values()]
        for item in planned:
            if not item.choice.running.prompt_is_read:
                self.prefilled_tokens += len(item.rows)
            item.choice.computed += len(item.rows)
        return []

    def _verify(self, planned: Planned) -> Iterator[Text | Done | Failed]:
        """Draw from the rows that have logits, and say what the tokens add to the texts."""
        choice, running = planned.choice, planned.choice.running
        if planned.first_logits is None or running.over:
            return
        try:
            for reader in [choice] if running.prompt_is_read else self._share_prompt(running):
                yield from self._extend(reader, planned.drafted, planned.first_logits)
        except RequestError as error:
            yield _fail(running, error)
        except Exception as error:  # one request's trouble is not the others'
            _logger.exception("request %d failed", running.request.id)
            yield _fail(running, RequestError(f"the engine failed on this request: {error}"))

    def _share_prompt(self, running: Running) -> list[Choice]:
        """The prompt is decoded, in the first choice's slot: let the others have it too."""
        first, *others = running.choices
        running.prompt_is_read = True
        for choice in others:
            if first.slot is not None and choice.slot is not None:
                self._kernels.share(first.slot, choice.slot, first.computed)
                choice.computed = first.computed
        return running.choices

    def _extend(self, choice: Choice, drafted: tuple[int, ...], first_row: int) -> Iterator[Text | Done]:
        """Emit the tokens that the rows have shown, and drop the cells of drafts that were wrong."""
        before = len(choice.tokens)
        probabilities = []
        for drawn, probability in walk(choice.chooser, lambda row: self._kernels.logits(first_row + row), drafted):
            if probability is not None:
                probabilities.append(probability)
            yield from self._emission.take(choice, drawn)
            if choice.over:
                break
        emitted = choice.tokens[before:]
        self.drawn_tokens += len(emitted)
        self._speculator.learn(choice.draft, drafted=drafted, emitted=emitted, probabilities=probabilities)
        if choice.slot is not None and choice.computed >= len(choice.tokens):
            choice.computed = len(choice.tokens) - 1
            self._kernels.remove(choice.slot, choice.computed)

    def _release_what_is_over(self) -> None:
        for running in tuple(self._scheduler.running.values()):
            self._free_what_is_over(running)

    def _free_what_is_over(self, running: Running) -> None:
        for choice in running.choices:
            if choice.over and (slot := self._scheduler.free(choice)) is not None:
                self._speculator.end(choice.draft)
                self._kernels.remove(slot)
        if running.over:
            self._scheduler.forget(running)


def _fail(running: Running, error: RequestError) -> Failed:
    running.abandon()
    return Failed(id=running.request.id, code=error.code, message=str(error), param=error.param)


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
