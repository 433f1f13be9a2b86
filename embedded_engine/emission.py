"""What a new token says to the caller."""

from collections.abc import Iterator

from embedded_engine.choice import Choice, EndReason
from embedded_engine.messages import Done, Text, TokenLogprob
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
        if choice.running.request.logprobs is not None:
            entry = self._vocabulary.spell(drawn.logprobs(choice.running.request.logprobs))
            choice.logprobs.add(entry, at=choice.transcript.characters_read)
        said = choice.transcript.feed(drawn.token)
        if choice.transcript.ended is not None:
            yield from self._end(choice, choice.transcript.ended, said)
        elif choice.room_tokens == 0:
            yield from self._end(choice, "length", said)
        elif said:
            yield self._text(choice, said, choice.logprobs.take(choice.transcript.characters_shown))

    def _end(self, choice: Choice, reason: EndReason, said: Said) -> Iterator[Text | Done]:
        """The choice's last events."""
        choice.over = True
        transcript = choice.transcript
        said += transcript.finish()
        if transcript.ended == "stop":
            logprobs = choice.logprobs.take(transcript.characters_shown)
        else:
            logprobs = choice.logprobs.take_all()
        if said or logprobs:
            yield self._text(choice, said, logprobs)
        yield Done(
            id=choice.running.request.id,
            choice=choice.index,
            reason="tool_calls" if reason == "stop" and transcript.calls else reason,
            completion_tokens=choice.emitted_tokens,
            reasoning_tokens=transcript.reasoning_tokens,
        )

    def _text(self, choice: Choice, said: Said, logprobs: tuple[TokenLogprob, ...]) -> Text:
        tokens, choice.unreported_tokens = choice.unreported_tokens, 0
        return Text(
            id=choice.running.request.id,
            choice=choice.index,
            text=said.text,
            tokens=tokens,
            reasoning=said.reasoning,
            calls=tuple(said.calls),
            logprobs=logprobs,
        )
