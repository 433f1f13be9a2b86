"""One look at a whole answer of Ollama's, to a chat or a generation."""

from gateway.errors import UpstreamInvalid
from gateway.wire.ollama_stream import Line, opened_line
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import text_of
from gateway.wire.whole_look import WholeLook


class OllamaWhole(WholeLook):
    """See ``WholeView``."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``. Counts that are only estimated are left to who knows the prompt better."""
        answer = opened_answer(body)
        usage = answer.usage()
        self.usage = None if usage is None or usage.estimated else usage
        self.model = text_of(answer.model)
        self.finish_reason = answer.reason()
        self.output_bytes = answer.shown_bytes()
        return body


def opened_answer(body: bytes) -> Line:
    """The whole answer in a body.

    Raises:
        UpstreamInvalid: the body is empty or no answer.
        UpstreamError: it is an error.
    """
    if not body.strip():
        raise UpstreamInvalid("the upstream sent an empty answer")
    answer = opened_line(body)
    if answer.error:
        raise error_inside(body, "the upstream reported an error in place of an answer")
    if answer.done is not True:
        raise UpstreamInvalid("the upstream sent an answer that is not done")
    return answer
