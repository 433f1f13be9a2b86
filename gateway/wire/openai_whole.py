"""One look at a whole OpenAI answer, chat or completion."""

from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid
from gateway.wire.openai_output import Output, shown_bytes
from gateway.wire.openai_usage import UsualUsage, read_usage
from gateway.wire.upstream_codes import broken_off, error_inside
from gateway.wire.whole_look import WholeLook


class _Choice(msgspec.Struct, gc=False):
    message: Output | None = None
    text: Raw = Raw()
    finish_reason: Any = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: UsualUsage | None = None
    error: Any = None
    object: Any = None
    model: Any = None


class _OddAnswer(_Answer, gc=False):
    usage: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)
_ODD_ANSWER = msgspec.json.Decoder(_OddAnswer)


class OpenAIWhole(WholeLook):
    """See ``WholeView``."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``."""
        answer = self._counted(body)
        if not answer.choices:
            raise UpstreamInvalid("the upstream sent an answer without choices")
        self.model = answer.model if isinstance(answer.model, str) else ""
        for choice in answer.choices:
            if not self.finish_reason and isinstance(choice.finish_reason, str):
                self.finish_reason = choice.finish_reason
                if (error := broken_off(self.finish_reason)) is not None:
                    raise error
            self.output_bytes += shown_bytes(choice.message, choice.text)
        return body

    def _counted(self, body: bytes) -> _Answer:
        """The answer, its usage read: at once where it counts as most do, else once more and with tolerance."""
        try:
            answer = opened(body, _ANSWER)
        except UpstreamInvalid:
            odd = opened(body, _ODD_ANSWER)
            self.usage = read_usage(odd.usage)
            return odd
        self.usage = answer.usage.counted() if answer.usage is not None else None
        return answer


class Enveloped(Protocol):
    """What a whole answer of any kind may hold in place of itself."""

    error: Any
    object: Any


A = TypeVar("A", bound=Enveloped)


def opened(body: bytes, decoder: msgspec.json.Decoder[A]) -> A:
    """The answer in a body.

    Raises:
        UpstreamInvalid: the body is empty or no answer.
        UpstreamError: it is an error; ``UpstreamFailed`` unless its code says more.
    """
    if not body.strip():
        raise UpstreamInvalid("the upstream sent an empty answer")
    try:
        answer = decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent a body that is no answer") from error
    if answer.error or answer.object == "error":
        raise error_inside(body, "the upstream reported an error in place of an answer")
    return answer
