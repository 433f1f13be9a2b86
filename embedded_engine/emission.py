"""What a new token says to the caller."""

from collections.abc import Iterator

from embedded_engine.choice import Choice, EndReason
from embedded_engine.messages import Done, Text
from embedded_engine.sampling.chooser import Drawn
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Emission"]


class Emission:
    """Turns drawn tokens into text, and says when a choice is over."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def take(self, choice: Choice, drawn: Drawn) -> Iterator[Text | Done]:
        """One token more; the choice is over after the `Done`."""
        if drawn.token in self._vocabulary.ends:
            yield from self._end(choice, "stop", choice.stops.flush())
            return
        choice.tokens.append(drawn.token)
        choice.unreported_tokens += 1
        text = choice.stops.feed(choice.characters.feed(self._vocabulary.pieces[drawn.token]))
        if choice.stops.matched is not None:
            yield from self._end(choice, "stop", text)
        elif choice.room_tokens == 0:
            yield from self._end(choice, "length", text + choice.stops.flush())
        elif text:
            yield self._text(choice, text)

    def _end(self, choice: Choice, reason: EndReason, text: str) -> Iterator[Text | Done]:
        """The choice's last events."""
        choice.over = True
        if text:
            yield self._text(choice, text)
        number = choice.running.request.id
        yield Done(id=number, choice=choice.index, reason=reason, completion_tokens=choice.emitted_tokens)

    def _text(self, choice: Choice, text: str) -> Text:
        tokens, choice.unreported_tokens = choice.unreported_tokens, 0
        return Text(id=choice.running.request.id, choice=choice.index, text=text, tokens=tokens)
