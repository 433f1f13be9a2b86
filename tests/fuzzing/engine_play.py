"""Plays random requests on an engine, with cancels at random moments, and holds it to what it promises.

Whatever is asked: it is refused with a reason, fails alone, or ends; what was said agrees with what was counted; no
event comes for what is over; and at the end nobody holds a slot, a place or a cell.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from embedded_engine.characters import Characters
from embedded_engine.engine import Engine
from embedded_engine.errors import RequestError
from embedded_engine.intake import Prepared
from embedded_engine.messages import Done, Echo, Embed, Embedded, Failed, Generate, Text
from tests.fuzzing.engine_requests import random_request, random_texts

_REFUSALS = {"invalid_request", "invalid_messages", "context_length_exceeded", "queue_full", "no_chat_template"}
_FAILURES = {"numerics", "decode_failed"}


@dataclass
class _Asked:
    """A request under way."""

    request: Generate | Embed
    prepared: Any
    events: list[Any] = field(default_factory=list)

    @property
    def over(self) -> bool:
        if isinstance(self.request, Embed):
            return len(self.events) == len(self.request.texts or ())
        return sum(isinstance(event, Done) for event in self.events) == self.request.n


class Play:
    """One engine and its random callers.

    Args:
        engine: Any.
        seed: Equal seeds ask the same; what comes of it also depends on the engine.
        at_once: So many requests under way.
    """

    def __init__(self, engine: Engine, *, seed: int, at_once: int = 8) -> None:
        self.tally: Counter[str] = Counter()
        self._engine = engine
        self._dice = Random(seed)  # noqa: S311 - requests, not secrets
        self._at_once = at_once
        self._asked: dict[int, _Asked] = {}

    def run(self, requests: int) -> None:
        """Ask so many, and let all of them come to their ends."""
        for number in range(requests):
            while len(self._asked) >= self._at_once:
                self._step()
            self._ask(number)
            if self._asked and self._dice.random() < 0.1:
                self._cancel(self._dice.choice(list(self._asked)))
        steps = 0
        while self._engine.busy:
            self._step()
            steps += 1
            assert steps < 100_000, "an engine that comes to no end"
        assert {} == self._asked
        assert (0, 0, ()) == (self._engine.running, self._engine.queued, self._engine.requests)

    def _ask(self, number: int) -> None:
        engine, embeds = self._engine, self._dice.random() < 0.05
        request = random_texts(self._dice, number) if embeds else random_request(self._dice, number)
        try:
            prepared = engine.prepare_embedding(request) if isinstance(request, Embed) else engine.prepare(request)
            engine.submit(prepared)
        except RequestError as refusal:
            self.tally[refusal.code] += 1
        else:
            self._asked[number] = _Asked(request, prepared)
        assert set(self.tally) <= _REFUSALS | _FAILURES | {"done", "cancelled"}

    def _cancel(self, number: int) -> None:
        self._engine.cancel(number)
        del self._asked[number]
        self.tally["cancelled"] += 1

    def _step(self) -> None:
        for event in self._engine.step():
            asked = self._asked[event.id]
            if isinstance(event, Failed):
                grammar = isinstance(asked.request, Generate) and asked.prepared.plan.grammar is not None
                assert event.code in _FAILURES or (grammar and event.code == "invalid_request"), event
                del self._asked[event.id]
                self.tally[event.code] += 1
                continue
            asked.events.append(event)
            if asked.over:
                del self._asked[event.id]
                self._judge(asked)
                self.tally["done"] += 1

    def _judge(self, asked: _Asked) -> None:
        request, events = asked.request, asked.events
        if isinstance(request, Embed):
            assert list(range(len(events))) == [event.text for event in events if isinstance(event, Embedded)]
            return
        if request.echo:
            _judge_echo(request, asked.prepared, [event for event in events if isinstance(event, Echo)])
        for choice in range(request.n):
            of_choice = [event for event in events if isinstance(event, Text) and event.choice == choice]
            (done,) = [event for event in events if isinstance(event, Done) and event.choice == choice]
            assert done is [event for event in events if getattr(event, "choice", None) == choice][-1]
            _judge_choice(request, asked.prepared, of_choice, done)


def _judge_echo(request: Generate, prepared: Prepared, echoes: list[Echo]) -> None:
    told = "".join(event.text for event in echoes)
    if request.text is not None:
        assert request.text == told
    entries = [entry for event in echoes for entry in event.logprobs]
    assert (0 if request.logprobs is None else len(prepared.prompt)) == len(entries)


def _judge_choice(request: Generate, prepared: Prepared, texts: list[Text], done: Done) -> None:
    text = "".join(event.text for event in texts)
    text.encode()  # whole characters
    assert sum(event.tokens for event in texts) <= done.completion_tokens <= prepared.max_tokens
    if done.reason == "length":
        assert prepared.max_tokens == done.completion_tokens
    elif not request.stop and prepared.plan.grammar is None:
        assert done.completion_tokens >= request.min_tokens
        assert not request.ignore_eos
    assert not any(stop in text for stop in request.stop)
    entries = [entry for event in texts for entry in event.logprobs]
    assert bool(entries) <= (request.logprobs is not None)
    plain = not request.tools and not request.stop
    if request.logprobs is not None and plain:
        assert done.completion_tokens == len(entries)
        assert text == Characters().feed(b"".join(entry.chosen.piece or b"" for entry in entries))
    if done.reason == "stop" and plain and request.grammar is not None and request.grammar.kind.startswith("json"):
        json.loads(text)
