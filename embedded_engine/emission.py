"""What a new token says to the caller."""

from collections.abc import Iterator

from embedded_engine.choice import Choice, EndReason
from embedded_engine.messages import Done, Text
from embedded_engine.sampling.chooser import Drawn
from embedded_engine.transcript import Said
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Emission"]


class Emission:
    """Turns drawn tokens into what they say, and says when a choice is over."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def take(self, choice: Choice, drawn: Drawn) -> Iterator[Text | Done]:
        """One token more; the choice is over after the `Done`."""
        if drawn.token in self._vocabulary.ends:
            yield from self._end(choice, "stop", Said())
            return
        choice.tokens.append(drawn.token)
        choice.unreported_tokens += 1
        said = choice.transcript.feed(drawn.token)
        if choice.transcript.ended is not None:
            yield from self._end(choice, choice.transcript.ended, said)
        elif choice.room_tokens == 0:
            yield from self._end(choice, "length", said)
        elif said:
            yield self._text(choice, said)

    def _end(self, choice: Choice, reason: EndReason, said: Said) -> Iterator[Text | Done]:
        """The choice's last events."""
        choice.over = True
        transcript = choice.transcript
        said += transcript.finish()
        if said:
            yield self._text(choice, said)
        yield Done(
            id=choice.running.request.id,
            choice=choice.index,
            reason="tool_calls" if reason == "stop" and transcript.calls else reason,
            completion_tokens=choice.emitted_tokens,
            reasoning_tokens=transcript.reasoning_tokens,
        )

    def _text(self, choice: Choice, said: Said) -> Text:
        tokens, choice.unreported_tokens = choice.unreported_tokens, 0
        return Text(
            id=choice.running.request.id,
            choice=choice.index,
            text=said.text,
            tokens=tokens,
            reasoning=said.reasoning,
            calls=tuple(said.calls),
        )
