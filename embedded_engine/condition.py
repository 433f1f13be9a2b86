"""What the engine says of itself, in its messages."""

from msgspec import Struct

from embedded_engine.measured import CostPoint, Drafts

__all__ = ["Facts", "Ready", "SelfTest", "StartFailed"]


class SelfTest(Struct, frozen=True, kw_only=True):
    """What the kernels said about themselves at load.

    Attributes:
        rows: Rows of the batch that was compared with the same rows decoded alone.
        max_logit_error: The largest absolute difference of any logit.
        argmax_flips: At how many of the rows the likeliest token differed.
        micro_batch_rows: The micro-batch that passed; 31 where larger ones gave wrong logits.
        prefill_tokens_per_s: Prompt tokens per second in one batch.
        decode_s_per_token: Seconds for one token of one sequence.
    """

    rows: int
    max_logit_error: float
    argmax_flips: int
    micro_batch_rows: int
    prefill_tokens_per_s: float
    decode_s_per_token: float


class Ready(Struct, frozen=True, kw_only=True, tag=True):
    """The model is loaded and answers.

    Attributes:
        model: The name it was asked for by, or the file's name.
        path: The GGUF file.
        sha256: Its digest where the model cache knows it, else None.
        quantisation: As the file says, for example "Q8_0".
        description: The kernels' own words for the model.
        kernels: "ik_llama" or "llama_cpp".
        context_tokens: Prompt and answer of one choice share this many tokens.
        kv_tokens: All running choices share this many cells.
        lanes: In so many memories.
        slots: So many choices run at once.
        queue_limit: So many requests wait before `queue_full` is answered.
        vocabulary_tokens: Size of the vocabulary.
        has_chat_template: Whether `messages` can be rendered.
        self_test: Numerics and speed, measured at load.
        thinks: Whether the model's template has it think.
        tool_format: How it writes tool calls, by the name of its family.
        keeps_prefixes: Whether prompts are remembered, so that what begins like an earlier one costs less.
        drafters: What drafts tokens, by name; empty where nothing does.
        verify_costs: Seconds of one call by rows of one sequence: what it costs to verify drafts.
        batch_costs: Seconds of one call by sequences of one row each: what it costs to serve several at once.
    """

    model: str
    path: str
    sha256: str | None
    quantisation: str
    description: str
    kernels: str
    context_tokens: int
    kv_tokens: int
    slots: int
    queue_limit: int
    vocabulary_tokens: int
    has_chat_template: bool
    self_test: SelfTest
    lanes: int = 1
    thinks: bool = False
    tool_format: str = ""
    keeps_prefixes: bool = False
    drafters: tuple[str, ...] = ()
    verify_costs: tuple[CostPoint, ...] = ()
    batch_costs: tuple[CostPoint, ...] = ()


class StartFailed(Struct, frozen=True, kw_only=True, tag=True):
    """The engine cannot start and exits: `code` is "model_not_found", "kernels_missing" or "load_failed"."""

    code: str
    message: str


class Facts(Struct, frozen=True, kw_only=True, tag=True):
    """How busy the engine is; sent a few times a second while it is, when it falls idle, and when it is asked.

    Attributes:
        queued: Requests waiting for a slot.
        running: Choices holding one.
        free_kv_tokens: Cells of the context memory, all lanes together, that nobody holds.
        steps: Steps done since the start; a busy engine whose number stands still is stuck.
        tokens_per_s: New tokens per second over the last reporting interval.
        prefill_tokens_per_s: Prompt tokens per second over the same.
        prefix_tokens: Prompt tokens that are remembered, of which a prompt may find its beginning.
        drafts: What was drafted since the start, by source.
    """

    queued: int
    running: int
    free_kv_tokens: int
    steps: int
    tokens_per_s: float
    prefill_tokens_per_s: float
    prefix_tokens: int = 0
    drafts: tuple[Drafts, ...] = ()
