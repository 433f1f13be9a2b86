"""What a new token says to the caller."""

from collections.abc import Callable, Iterator

from embedded_engine.choice import Choice, EndReason
from embedded_engine.measured import Drafts, Measured
from embedded_engine.messages import Done, Text, TokenLogprob
from embedded_engine.sampling.chooser import Drawn
from embedded_engine.transcript import Said
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Emission"]


class Emission:
    """Turns drawn tokens into what they say, and says when a choice is over.

    Args:
        vocabulary: The model's.
        clock: Seconds that only rise.
    """

    def __init__(self, vocabulary: Vocabulary, clock: Callable[[], float]) -> None:
        self._vocabulary = vocabulary
        self._clock = clock

    def take(self, choice: Choice, drawn: Drawn) -> Iterator[Text]:
        """One token more; with its last one the choice is over."""
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

    def nothing(self, choice: Choice) -> Iterator[Text | Done]:
        """No token was asked for: the choice is over before its first."""
        yield from self._end(choice, "length", Said())
        yield self.done(choice)

    def done(self, choice: Choice) -> Done:
        """The last event of a choice that is over."""
        transcript = choice.transcript
        return Done(
            id=choice.running.request.id,
            choice=choice.index,
            reason="tool_calls" if choice.reason == "stop" and transcript.calls else choice.reason,
            completion_tokens=choice.emitted_tokens,
            reasoning_tokens=transcript.reasoning_tokens,
            stop_string=transcript.stop_string,
            measured=self._measured(choice),
        )

    def _end(self, choice: Choice, reason: EndReason, said: Said) -> Iterator[Text]:
        """The choice's last text."""
        choice.over = True
        choice.reason = reason
        transcript = choice.transcript
        said += transcript.finish()
        if transcript.ended == "stop":
            logprobs = choice.logprobs.take(transcript.characters_shown)
        else:
            logprobs = choice.logprobs.take_all()
        if said or logprobs:
            yield self._text(choice, said, logprobs)

    def _measured(self, choice: Choice) -> Measured:
        running, draft = choice.running, choice.draft
        return Measured(
            queue_s=running.placed_s - running.arrived_s,
            prefill_s=running.first_token_s - running.placed_s,
            decode_s=self._clock() - running.first_token_s,
            cached_tokens=running.cached_tokens,
            drafts=tuple(
                Drafts(source=source, drafts=count.drafts, drafted=count.drafted, accepted=count.accepted)
                for source, count in draft.counts.items()
            ),
            accepted_prediction_tokens=draft.accepted_prediction_tokens,
            rejected_prediction_tokens=draft.rejected_prediction_tokens,
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
