"""Serves many requests on one model, in one thread.

    engine = Engine(EngineSettings(model_path="model.gguf"))
    engine.submit(engine.prepare(Generate(id=1, text="Once", max_tokens=8)))
    while engine.busy:
        for event in engine.step():  # Text..., one Done for each choice, or Failed
            ...

A request that fails, by its own numbers or together with the batch it was in, never takes the loop down.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence

from embedded_engine.beginning import Beginning
from embedded_engine.choice import Choice, Running
from embedded_engine.drafting import Drafting
from embedded_engine.embedding import Embedder, PreparedEmbedding
from embedded_engine.emission import Emission
from embedded_engine.errors import DeadlineExceeded, DecodeFailed
from embedded_engine.failures import fail, guarded
from embedded_engine.intake import Intake, Limits, Prepared
from embedded_engine.kernels.port import DecodeError, Kernels
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.loading import load_model
from embedded_engine.measured import Drafts
from embedded_engine.memory import CellMemory
from embedded_engine.messages import Accepted, CountTokens, Embed, Event, Failed, Generate
from embedded_engine.prefix_cache import open_cache
from embedded_engine.prompt_echo import PromptEcho
from embedded_engine.scheduler import Scheduler
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.step_plan import Planned, StepPlanner
from embedded_engine.verifier import Verifier
from embedded_engine.workload import Workload

__all__ = ["Engine"]

_logger = logging.getLogger(__name__)

_EMBEDDED_BESIDE = 8
"""So many tokens of embeddings are read in a step that has other rows."""


class Engine:
    """One model and its running requests.

    `prepare` and `count_tokens` may be called from any thread, all else from one.

    Args:
        settings: The model, and how much of the machine it may use.
        kernels: A loaded model to compute with; None: load `settings.model_path`.
        clock: Seconds that only rise.

    Attributes:
        ready: What was loaded, and what was measured of it.
        steps: Decode calls since the start.
        prefilled_tokens: Prompt tokens computed since the start.

    Raises:
        StartError: There is no such file, no kernels, or they refuse the model.
    """

    def __init__(
        self, settings: EngineSettings, kernels: Kernels | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        loaded = load_model(settings, kernels)
        shape = loaded.shape
        self._clock = clock
        self._kernels = loaded.kernels
        self._vocabulary = loaded.vocabulary
        limits = Limits(context_tokens=loaded.context_tokens, kv_tokens=shape.kv_tokens, slots=settings.slots)
        self._intake = Intake(loaded.reader, loaded.vocabulary, limits)
        self._costs = LaneCosts(StepCosts(loaded.curves.verify_s), loaded.curves.cell_s)
        self._memory = CellMemory(
            loaded.kernels, lanes=shape.lanes, lane_tokens=shape.kv_tokens, lane_sequences=shape.sequences
        )
        self._cache = open_cache(self._memory, settings)
        self._speculator = Speculator(self._costs.curve, end_tokens=loaded.vocabulary.ends)
        self._drafting = Drafting(self._speculator, loaded.draft_model, self._costs.curve)
        beginning = Beginning(loaded.vocabulary, self._speculator, self._drafting, speculates=loaded.speculates)
        self._scheduler = Scheduler(
            self._memory,
            self._cache,
            self._costs,
            slots=settings.slots,
            queue_limit=settings.queue_limit,
            begin=beginning.choices,
        )
        self._step_tokens = settings.step_tokens
        self._planner = StepPlanner(self._memory, self._costs, step_tokens=settings.step_tokens)
        self._embedder = Embedder(loaded.kernels, queue_limit=settings.queue_limit)
        self._verifier = Verifier(
            loaded.kernels,
            self._memory,
            Emission(loaded.vocabulary, clock),
            self._speculator,
            rounding=loaded.rounding,
        )
        self._workload = Workload(self._costs)
        self.steps = self.prefilled_tokens = 0
        self.ready = loaded.ready(settings)

    @property
    def busy(self) -> bool:
        """Whether a step would have anything to do."""
        return bool(self._scheduler.requests) or self._embedder.busy

    @property
    def drawn_tokens(self) -> int:
        """New tokens since the start."""
        return self._verifier.drawn_tokens

    @property
    def queued(self) -> int:
        """Requests waiting for a slot."""
        return self._scheduler.queued

    @property
    def running(self) -> int:
        """Choices that hold a slot."""
        return len(self._scheduler.placed)

    @property
    def free_kv_tokens(self) -> int:
        """Cells that nobody holds."""
        return sum(self._memory.free_tokens(lane) for lane in self._memory.lanes)

    @property
    def prefix_tokens(self) -> int:
        """Tokens that are remembered."""
        return self._cache.tokens

    @property
    def drafts(self) -> tuple[Drafts, ...]:
        """What was drafted since the start, by source."""
        report = self._speculator.report().items()
        return tuple(
            Drafts(source=name, drafts=one.drafts, drafted=one.drafted, accepted=one.accepted) for name, one in report
        )

    @property
    def requests(self) -> tuple[int, ...]:
        """The numbers of all requests, queued or running."""
        return (*self._scheduler.requests, *self._embedder.requests)

    def prepare(self, request: Generate) -> Prepared:
        """Check a request and read its prompt; it takes no slot yet.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        return self._intake.prepare(request)

    def prepare_embedding(self, request: Embed) -> PreparedEmbedding:
        """Check a request for vectors and read its texts.

        Raises:
            RequestError: It cannot be served; the class says why.
        """
        return self._intake.prepare_embedding(request)

    def count_tokens(self, request: CountTokens) -> int:
        """How many prompt tokens a conversation or a text is.

        Raises:
            RequestError: It cannot be read.
        """
        return self._intake.count(request)

    def submit(self, request: Prepared | PreparedEmbedding) -> Accepted:
        """Put a request into the queue; its other events come from `step`.

        Raises:
            QueueFull: Too many wait already.
        """
        if isinstance(request, PreparedEmbedding):
            return self._embedder.submit(request)
        now_s = self._clock()
        running = Running(
            request=request,
            echo=PromptEcho(request, self._vocabulary) if request.echo else None,
            arrived_s=now_s,
            due_s=now_s + self._workload.work_s(request),
            expires_s=math.inf if request.deadline_s is None else now_s + request.deadline_s,
        )
        self._scheduler.add(running, now_s)
        return Accepted(id=request.id, prompt_tokens=len(request.prompt))

    def cancel(self, number: int) -> None:
        """Drop a request, queued or running.

        Its slots are free at once and no event of it follows. Unknown ids are ignored.
        """
        if running := self._scheduler.requests.get(number):
            self._drop(running)
        self._embedder.cancel(number)

    def step(self) -> list[Event]:
        """Schedule, run, verify, emit, release: one decode call, and what came of it."""
        events: list[Event] = list(self._fail_expired())
        planned = self._schedule()
        events += self._run(planned) or [event for item in planned for event in self._verify(item, len(planned))]
        events += self._settle([item.choice for item in planned if item.choice.in_doubt])
        self._release_what_is_over()
        events += self._embedder.step(_EMBEDDED_BESIDE if planned else self._step_tokens)
        return events

    def close(self) -> None:
        """Free the model."""
        self._cache.close()
        self._kernels.close()

    def _fail_expired(self) -> Iterator[Failed]:
        for running in self._scheduler.expired(self._clock()):
            yield fail(running, DeadlineExceeded(f"not done {running.request.deadline_s:g} s after it was taken"))
            self._drop(running)

    def _schedule(self) -> list[Planned]:
        self._scheduler.make_room()
        self._scheduler.admit(self._clock())
        self._scheduler.spread()
        return self._planner.plan(self._scheduler.placed, self._drafting.plan)

    def _run(self, planned: Sequence[Planned]) -> list[Failed]:
        """Decode the rows; the failures of all requests in the batch if the kernels fail."""
        if not planned:
            return []
        self.steps += 1
        rows = [row for item in planned for row in item.rows]
        try:
            self._memory.close_holes()
            started_s = time.thread_time()
            self._kernels.decode(rows)
        except DecodeError as error:
            _logger.exception("a batch for %d choices failed", len(planned))
            failed = {item.choice.running.request.id: item.choice.running for item in planned}
            return [fail(running, DecodeFailed(str(error))) for running in failed.values()]
        seconds = time.thread_time() - started_s
        for item in planned:
            if not item.choice.running.prompt_is_read:
                self.prefilled_tokens += len(item.rows)
            item.choice.computed += len(item.rows)
            self._memory.grew(item.rows[0].sequence, len(item.rows))
        lanes = {self._memory.lane_of(item.rows[0].sequence) for item in planned}
        if len(lanes) == 1:
            self._costs.measured(len(rows), self._memory.used_tokens(lanes.pop()), seconds)
        return []

    def _verify(self, planned: Planned, items: int) -> Iterator[Event]:
        """What the rows of one of the step's items come to."""
        if not planned.choice.running.over:
            yield from guarded(planned.choice.running, self._read(planned, alone=items == len(planned.rows) == 1))

    def _read(self, planned: Planned, *, alone: bool) -> Iterator[Event]:
        choice, running = planned.choice, planned.choice.running
        if running.echo is not None and not running.prompt_is_read:
            yield from running.echo.read(choice.computed, lambda place: self._kernels.logits(planned.row_at(place)))
        if planned.first_logits is None:
            return
        readers = [choice] if running.prompt_is_read else running.choices
        if not running.prompt_is_read:
            self._scheduler.share_prompt(running)
            running.first_token_s = self._clock()
        for reader in readers:
            yield from self._verifier.verify(reader, planned.drafted, planned.first_logits, alone=alone)

    def _settle(self, choices: Sequence[Choice]) -> Iterator[Event]:
        """Compute what is in doubt alone, now that nobody needs the step's rows any more."""
        for choice in choices:
            yield from guarded(choice.running, self._verifier.settle(choice))

    def _release_what_is_over(self) -> None:
        for running in tuple(self._scheduler.requests.values()):
            for choice in running.choices:
                if choice.over:
                    self._leave(choice)
            if running.over:
                self._drop(running)

    def _drop(self, running: Running) -> None:
        """Nothing more comes of a request."""
        for choice in running.choices:
            self._leave(choice)
        self._scheduler.drop(running)

    def _leave(self, choice: Choice) -> None:
        """Nothing more comes of a choice."""
        self._scheduler.release(choice, keep=choice.running.prompt_is_read and not choice.running.abandoned)
        if not choice.left:
            choice.left = True
            self._speculator.end(choice.draft)
            choice.leave_draft_model()
            self._workload.learn(choice)
