"""What the engine process and whoever runs it say to each other; `frames.py` says how it goes over the socket.

Nothing here needs numpy or a kernel, so a gateway may import it where no engine is installed.

A request's life on the wire: `Generate` -> `Accepted` -> `Echo`... where it was asked for -> `Text`... -> one `Done`
for each choice; or one `Failed`, after which nothing more comes for that id. `Cancel` ends a request silently: events
already on their way may still arrive.
"""

from typing import Literal

from msgspec import Struct

from embedded_engine.condition import Facts, Ready, SelfTest, StartFailed
from embedded_engine.likelihoods import Likelihood, TokenLogprob
from embedded_engine.measured import Measured
from embedded_engine.speculative import Speculative
from embedded_engine.turns import CallPiece, ChatMessage, PastCall, Reasoning, Tool

__all__ = [
    "MAX_BIASED_TOKENS",
    "MAX_CHOICES",
    "MAX_LOGPROBS",
    "MAX_STOP_BYTES",
    "MAX_STOP_STRINGS",
    "MAX_TEXTS",
    "Accepted",
    "CallPiece",
    "Cancel",
    "ChatMessage",
    "Check",
    "CountTokens",
    "Counted",
    "Done",
    "Echo",
    "Embed",
    "Embedded",
    "Event",
    "Facts",
    "Failed",
    "FromEngine",
    "Generate",
    "GrammarText",
    "Leave",
    "Likelihood",
    "PastCall",
    "Ping",
    "Ready",
    "Reasoning",
    "SelfTest",
    "StartFailed",
    "Text",
    "ToEngine",
    "TokenLogprob",
    "Tool",
]

MAX_STOP_STRINGS = 64
MAX_STOP_BYTES = 1024
MAX_CHOICES = 64
MAX_BIASED_TOKENS = 1024
MAX_LOGPROBS = 20
MAX_TEXTS = 2048


class GrammarText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an answer must look like.

    Attributes:
        kind: "json_object": any JSON object. "json_schema": JSON that a schema allows. "regex": a text that matches a
            regular expression from end to end. "choice": one of some texts. "lark": a grammar in Lark's notation, as
            llguidance reads it.
        text: The schema, the expression, the choices (a JSON array of texts) or the grammar; of "json_object" nothing.
        strict: Whether a keyword of a schema that cannot be kept is refused; else it is passed over.
        schemas: JSON Schemas by name, which a grammar of kind "lark" refers to as @name.
        param: The field that a refusal names.
    """

    kind: Literal["json_object", "json_schema", "regex", "choice", "lark"]
    text: str = ""
    strict: bool = True
    schemas: tuple[tuple[str, str], ...] = ()
    param: str = "response_format"


class Generate(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Continue a prompt; exactly one of `messages`, `text` and `token_ids` is given.

    Attributes:
        id: The caller's number for this request; `EngineProcess.generate` assigns it.
        messages: A conversation, rendered with the model file's own chat template.
        continues: Whether its last turn, which is the assistant's, is gone on with, and not answered.
        text: A raw prompt; control-token text in it stays text.
        token_ids: A prompt in the model's own tokens, control tokens allowed.
        max_tokens: At most so many new tokens for each choice; None: whatever room the context has left. 0 only with
            `echo`.
        temperature: 0 takes the likeliest token; 1 samples from the model as it is.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the smallest set of likeliest tokens that holds this much probability.
        min_p: Keep tokens at least this fraction as likely as the likeliest.
        seed: Equal seeds give equal answers; None: a fresh one.
        repetition_penalty: Over 1 makes tokens of prompt and answer less likely; 1 leaves them alone.
        presence_penalty: Taken from the logits of tokens that the answer has.
        frequency_penalty: The same, times how often.
        logit_bias: Added to the logits of these tokens.
        min_tokens: The model may not end its turn before so many.
        ignore_eos: It may not end it at all, and goes on to `max_tokens`.
        grammar: What the answer must look like; None: whatever the model says.
        logprobs: Tell each token's log-probability, and those of so many of the likeliest; None: don't.
        echo: Tell the prompt too, in `Echo`, with log-probabilities where `logprobs` asks for them.
        stop: Generation ends before any of these strings; they are never shown.
        n: How many choices to draw from one prompt.
        tools: What the model may call, with `messages`.
        tool_choice: "auto", "none", "required" (one or more), or "function" for `tool_name`.
        tool_name: The only function that may be called, and must be.
        parallel_tool_calls: Whether one answer may hold several calls.
        reasoning: How to think.
        template_arguments: Further variables for the chat template, as the JSON text of an object.
        prediction: What the caller expects the answer to be; only how fast it comes depends on it.
        speculative: How the answer may be sped up.
        predicted_tokens: How long the caller thinks each answer will be: short work goes first.
        deadline_s: From when the engine takes the request to when it is too late, queued or running.
        scope: Whose request it is. What one scope was asked or told speeds up no other's requests.
    """

    id: int = 0
    messages: tuple[ChatMessage, ...] | None = None
    continues: bool = False
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    grammar: GrammarText | None = None
    logprobs: int | None = None
    echo: bool = False
    stop: tuple[str, ...] = ()
    n: int = 1
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required", "function"] = "auto"
    tool_name: str = ""
    parallel_tool_calls: bool = True
    reasoning: Reasoning = Reasoning()
    template_arguments: str = ""
    prediction: str | None = None
    speculative: Speculative = Speculative()
    scope: str = ""
    predicted_tokens: int | None = None
    deadline_s: float | None = None


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


class Embed(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A vector for each text; exactly one of `texts` and `token_ids` is given.

    Answered by `Accepted` and an `Embedded` for each text, or by `Failed`.

    Attributes:
        id: The caller's number for this request; `EngineProcess.embed` assigns it.
        texts: Raw texts; control-token text in them stays text.
        token_ids: Texts in the model's own tokens.
    """

    id: int = 0
    texts: tuple[str, ...] | None = None
    token_ids: tuple[tuple[int, ...], ...] | None = None


class Ping(Struct, frozen=True, kw_only=True, tag=True):
    """Does the loop that makes the steps still come round? Answered by `Facts`, which a busy engine sends anyway."""


class Accepted(Struct, frozen=True, kw_only=True, tag=True):
    """The prompt fits and waits for, or has, its slot."""

    id: int
    prompt_tokens: int


class Echo(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """More of the prompt, in order, in whole characters: all of it before the first `Text`, once for all choices.

    `logprobs`, where asked for, has an entry for each of the tokens that were read since the last `Echo`; that of the
    prompt's first token has no likelihood, as nothing precedes it.
    """

    id: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class Text(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """More of one choice.

    Whole characters, no part of a stop string. `tokens` new tokens were spent since the last one. `reasoning` is what
    the model thinks and `calls` what it calls; neither is in `text`. `logprobs`, where asked for, are those of the
    tokens whose text is shown; they end where a stop string begins.
    """

    id: int
    choice: int
    text: str
    tokens: int
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class Done(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """One choice is over.

    `reason` is "stop" (the model ended, or a stop string matched), "length" (`max_tokens`, or the context is full) or
    "tool_calls" (it ended, and calls something). `completion_tokens` counts every token drawn for the choice, those of
    a matched stop string included, an end-of-generation token excluded; `reasoning_tokens` of them were thinking.
    `stop_string` is the one that ended it, if one did. `measured` says how it was answered.
    """

    id: int
    choice: int
    reason: Literal["stop", "length", "tool_calls"]
    completion_tokens: int
    reasoning_tokens: int = 0
    stop_string: str = ""
    measured: Measured = Measured()


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """The whole request is over with an error.

    `code` is one of "invalid_request", "invalid_messages", "context_length_exceeded", "no_chat_template", "queue_full",
    "deadline_exceeded", "decode_failed", "numerics" and "internal"; `message` is for people; `param` names the field at
    fault where there is one.
    """

    id: int
    code: str
    message: str
    param: str | None = None


class Counted(Struct, frozen=True, kw_only=True, tag=True):
    """The answer to `CountTokens` and to `Check`."""

    id: int
    prompt_tokens: int


class Embedded(Struct, frozen=True, kw_only=True, tag=True):
    """The vector of one text of an `Embed`, in order.

    Attributes:
        id: The request's number.
        text: Which text, from 0.
        vector: 32-bit little-endian floats, of length 1 together.
    """

    id: int
    text: int
    vector: bytes


Event = Echo | Text | Done | Failed | Embedded
"""What a step may come to."""

ToEngine = Generate | Embed | Cancel | CountTokens | Check | Ping | Leave
FromEngine = Ready | StartFailed | Accepted | Echo | Text | Done | Failed | Counted | Embedded | Facts
