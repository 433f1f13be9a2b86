"""What can go wrong inside the engine.

EngineError
├── StartError               the engine cannot start
│   ├── KernelsMissing         "kernels_missing": no library to compute with is installed
│   ├── ModelNotFound          "model_not_found": no such file, no such known model
│   └── LoadFailed             "load_failed": the file is there, and the kernels refuse it or compute it wrongly
└── RequestError             one request cannot be served; the others go on
    ├── InvalidRequest         "invalid_request": a field is out of its range
    ├── InvalidMessages        "invalid_messages": the model's chat template refuses the conversation
    ├── NoChatTemplate         "no_chat_template": the model has none
    ├── ContextLengthExceeded  "context_length_exceeded": the prompt leaves no room for an answer
    ├── QueueFull              "queue_full": too many requests wait already
    ├── DeadlineExceeded       "deadline_exceeded": its time was over before it was
    ├── DecodeFailed           "decode_failed": the kernels failed on a batch that held this request
    └── BadNumerics            "numerics": the logits are not numbers

Each class carries the `code` that goes over the wire; the message is for people.
"""

from typing import ClassVar


class EngineError(Exception):
    """Anything the engine says no to."""

    code: ClassVar[str] = "internal"


class StartError(EngineError):
    """The engine cannot start."""


class KernelsMissing(StartError):
    """No library to compute with is installed."""

    code = "kernels_missing"


class ModelNotFound(StartError):
    """There is no such model file, and no known model of that name."""

    code = "model_not_found"


class LoadFailed(StartError):
    """The model file is there, but cannot be loaded or is computed wrongly."""

    code = "load_failed"


class RequestError(EngineError):
    """One request cannot be served. `param` names the field at fault, where there is one."""

    param: str | None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidRequest(RequestError):
    """A field is out of its range."""

    code = "invalid_request"


class InvalidMessages(RequestError):
    """The model's chat template refuses this conversation."""

    code = "invalid_messages"


class NoChatTemplate(RequestError):
    """A conversation was sent to a model without a chat template."""

    code = "no_chat_template"


class ContextLengthExceeded(RequestError):
    """The prompt leaves no room for an answer."""

    code = "context_length_exceeded"


class QueueFull(RequestError):
    """Too many requests wait already."""

    code = "queue_full"


class DeadlineExceeded(RequestError):
    """The request's time was over before its answer was whole."""

    code = "deadline_exceeded"


class DecodeFailed(RequestError):
    """The kernels failed on a batch that held this request."""

    code = "decode_failed"


class BadNumerics(RequestError):
    """The model's logits for this request are not numbers."""

    code = "numerics"
