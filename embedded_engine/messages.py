"""What the engine process and whoever runs it say to each other; `frames.py` says how it goes over the socket.

Nothing here needs numpy or a kernel, so a gateway may import it where no engine is installed.

A request's life on the wire: `Generate` -> `Accepted` -> `Text`... -> one `Done` for each choice; or one `Failed`,
after which nothing more comes for that id. `Cancel` ends a request silently: events already on their way may still
arrive.
"""

from typing import Literal

from msgspec import Struct

from embedded_engine.turns import CallPiece, ChatMessage, PastCall, Reasoning, Tool

__all__ = [
    "MAX_CHOICES",
    "MAX_STOP_BYTES",
    "MAX_STOP_STRINGS",
    "Accepted",
    "CallPiece",
    "Cancel",
    "ChatMessage",
    "Check",
    "CountTokens",
    "Counted",
    "Done",
    "Facts",
    "Failed",
    "FromEngine",
    "Generate",
    "Leave",
    "PastCall",
    "Ping",
    "Ready",
    "Reasoning",
    "SelfTest",
    "StartFailed",
    "Text",
    "ToEngine",
    "Tool",
]

MAX_STOP_STRINGS = 64
MAX_STOP_BYTES = 1024
MAX_CHOICES = 64


class Generate(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Continue a prompt; exactly one of `messages`, `text` and `token_ids` is given.

    Attributes:
        id: The caller's number for this request; `EngineProcess.generate` assigns it.
        messages: A conversation, rendered with the model file's own chat template.
        text: A raw prompt; control-token text in it stays text.
        token_ids: A prompt in the model's own tokens, control tokens allowed.
        max_tokens: At most so many new tokens for each choice; None: whatever room the context has left.
        temperature: 0 takes the likeliest token; 1 samples from the model as it is.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the smallest set of likeliest tokens that holds this much probability.
        min_p: Keep tokens at least this fraction as likely as the likeliest.
        seed: Equal seeds give equal answers; None: a fresh one.
        stop: Generation ends before any of these strings; they are never shown.
        n: How many choices to draw from one prompt.
        tools: What the model may call, with `messages`.
        tool_choice: "auto", "none", "required" (one or more), or "function" for `tool_name`.
        tool_name: The only function that may be called, and must be.
        parallel_tool_calls: Whether one answer may hold several calls.
        reasoning: How to think.
        template_arguments: Further variables for the chat template, as the JSON text of an object.
    """

    id: int = 0
    messages: tuple[ChatMessage, ...] | None = None
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required", "function"] = "auto"
    tool_name: str = ""
    parallel_tool_calls: bool = True
    reasoning: Reasoning = Reasoning()
    template_arguments: str = ""


class Cancel(Struct, frozen=True, kw_only=True, tag=True):
    """Stop request `id`, queued or running; unknown ids are ignored."""

    id: int


class Leave(Struct, frozen=True, kw_only=True, tag=True):
    """The sender closes its connection next, in order: nobody needs to wait for its return."""


class CountTokens(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """How many prompt tokens would this be? Answered by `Counted` or `Failed`."""

    id: int = 0
    messages: tuple[ChatMessage, ...] | None = None
    text: str | None = None


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Could `request` be served? Answered by `Counted` or `Failed`; it is read, and takes no place."""

    id: int = 0
    request: Generate


class Ping(Struct, frozen=True, kw_only=True, tag=True):
    """Does the loop that makes the steps still come round? Answered by `Facts`, which a busy engine sends anyway."""


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
        slots: So many choices run at once.
        queue_limit: So many requests wait before `queue_full` is answered.
        vocabulary_tokens: Size of the vocabulary.
        has_chat_template: Whether `messages` can be rendered.
        self_test: Numerics and speed, measured at load.
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


class StartFailed(Struct, frozen=True, kw_only=True, tag=True):
    """The engine cannot start and exits: `code` is "model_not_found", "kernels_missing" or "load_failed"."""

    code: str
    message: str


class Accepted(Struct, frozen=True, kw_only=True, tag=True):
    """The prompt fits and waits for, or has, its slot."""

    id: int
    prompt_tokens: int


class Text(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """More of one choice.

    Whole characters, no part of a stop string. `tokens` new tokens were spent since the last one. `reasoning` is what
    the model thinks and `calls` what it calls; neither is in `text`.
    """

    id: int
    choice: int
    text: str
    tokens: int
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()


class Done(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """One choice is over.

    `reason` is "stop" (the model ended, or a stop string matched), "length" (`max_tokens`, or the context is full) or
    "tool_calls" (it ended, and calls something). `completion_tokens` counts every token drawn for the choice, those of
    a matched stop string included, an end-of-generation token excluded; `reasoning_tokens` of them were thinking.
    """

    id: int
    choice: int
    reason: Literal["stop", "length", "tool_calls"]
    completion_tokens: int
    reasoning_tokens: int = 0


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """The whole request is over with an error.

    `code` is one of "invalid_request", "invalid_messages", "context_length_exceeded", "no_chat_template", "queue_full",
    "decode_failed", "numerics" and "internal"; `message` is for people; `param` names the field at fault where there is
    one.
    """

    id: int
    code: str
    message: str
    param: str | None = None


class Counted(Struct, frozen=True, kw_only=True, tag=True):
    """The answer to `CountTokens` and to `Check`."""

    id: int
    prompt_tokens: int


class Facts(Struct, frozen=True, kw_only=True, tag=True):
    """How busy the engine is; sent a few times a second while it is, when it falls idle, and when it is asked.

    Attributes:
        queued: Requests waiting for a slot.
        running: Choices holding one.
        free_kv_tokens: Cells of the context memory not promised to anybody.
        steps: Steps done since the start; a busy engine whose number stands still is stuck.
        tokens_per_s: New tokens per second over the last reporting interval.
        prefill_tokens_per_s: Prompt tokens per second over the same.
    """

    queued: int
    running: int
    free_kv_tokens: int
    steps: int
    tokens_per_s: float
    prefill_tokens_per_s: float


ToEngine = Generate | Cancel | CountTokens | Check | Ping | Leave
FromEngine = Ready | StartFailed | Accepted | Text | Done | Failed | Counted | Facts
