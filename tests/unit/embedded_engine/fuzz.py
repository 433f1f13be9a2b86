"""Random requests against an engine, with all that a caller may do to it."""

import random
from collections import Counter
from typing import Any

from embedded_engine.engine import Engine
from embedded_engine.errors import RequestError
from embedded_engine.messages import Done, Echo, Embedded, Event, Failed, Generate, GrammarText, Text
from embedded_engine.speculative import Speculative
from embedded_engine.turns import ChatMessage

__all__ = ["Fuzz"]

_WORDS = (
    "mill",
    " river",
    "ab",
    "水車",
    "🌊",
    "\u0301",
    "\x00",
    "<|turn|>",
    "</think>",
    "\ud7ff",
    " ",
    "\n",
    "é",
    "a" * 40,
)
_SCOPES = ("", "a", "b")


class Fuzz:
    """Sends requests, steps, cancels, and keeps book of what is still owed.

    Attributes:
        counts: How requests ended.
        owed: By request, the choices that have not ended yet.
    """

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._dice = random.Random(seed)  # noqa: S311 - requests, not secrets
        self._number = 0
        self.counts: Counter[str] = Counter()
        self.owed: dict[int, set[int]] = {}

    def send(self, requests: int) -> None:
        """So many requests, some steps after each, some of them dropped."""
        for _ in range(requests):
            self._send_one()
            for _ in range(self._dice.choice((0, 1, 1, 2, 6))):
                self._step()
            if self.owed and self._dice.random() < 0.15:
                number = self._dice.choice(list(self.owed))
                self._engine.cancel(number)
                del self.owed[number]
                self.counts["cancelled"] += 1

    def finish(self, most_steps: int) -> None:
        """Step until nothing is owed; a row that is stuck never gets there."""
        for _ in range(most_steps):
            if not self._engine.busy:
                break
            self._step()
        assert not self._engine.busy, f"{len(self.owed)} requests are stuck"
        assert {} == self.owed

    def plain(self) -> Generate:
        """One that ends well."""
        self._number += 1
        return Generate(id=self._number, text="a mill", temperature=0, max_tokens=9)

    def _send_one(self) -> None:
        self._number += 1
        request = self._request()
        try:
            self._engine.submit(self._engine.prepare(request))
        except RequestError as error:
            self.counts[error.code] += 1
            return
        self.owed[request.id] = set(range(request.n))

    def _step(self) -> None:
        for event in self._engine.step():
            self._take(event)

    def _take(self, event: Event) -> None:
        assert event.id in self.owed, f"{event} is of nobody"
        match event:
            case Done(choice=choice):
                self.owed[event.id].remove(choice)
                self.counts[event.reason] += 1
            case Failed(code=code):
                self.counts[code] += 1
                self.owed[event.id].clear()
            case Text(choice=choice):
                assert choice in self.owed[event.id]
            case Echo() | Embedded():
                pass
        if not self.owed[event.id]:
            del self.owed[event.id]

    def _request(self) -> Generate:
        dice = self._dice
        text = "".join(dice.choices(_WORDS, k=dice.choice((0, 1, 3, 10, 30))))
        prompt: dict[str, Any] = {"text": text}
        if dice.random() < 0.3:
            prompt = {"messages": (ChatMessage(role=dice.choice(("user", "system")), content=text),)}
        elif dice.random() < 0.1:
            prompt = {"token_ids": tuple(dice.randint(-1, 260) for _ in range(dice.randint(0, 40)))}
        return Generate(id=self._number, **prompt, **self._fields())

    def _fields(self) -> dict[str, Any]:
        dice = self._dice
        nan = float("nan")
        usual: dict[str, Any] = {
            "max_tokens": dice.choice((None, 1, 2, 5, 20, 10**9)),
            "temperature": dice.choice((0.0, 0.0, 0.7, 1.0, 5.0)),
            "n": dice.choice((1, 1, 1, 2, 4)),
            "seed": dice.choice((None, 0, -1, 2**63 - 1)),
            "scope": dice.choice(_SCOPES),
            "predicted_tokens": dice.choice((None, 0, 5, 10**6)),
            "speculative": Speculative(enabled=dice.random() < 0.7),
        }
        rare: dict[str, Any] = {
            "temperature": dice.choice((nan, -1.0, 1e-9)),
            "top_p": dice.choice((0.0, 0.1, 0.9, nan)),
            "top_k": dice.choice((1, 3, -1)),
            "min_p": dice.choice((0.5, 1.0, 2.0)),
            "repetition_penalty": dice.choice((0.5, 1.5)),
            "presence_penalty": dice.choice((-2.0, 2.0)),
            "logit_bias": ((65, 100.0), (257, -100.0)),
            "min_tokens": dice.choice((1, 10)),
            "ignore_eos": True,
            "logprobs": dice.choice((0, 3)),
            "stop": dice.choice((("a",), ("ab", "\n"), ("",), ("🌊",))),
            "grammar": dice.choice((GrammarText(kind="json_object"), GrammarText(kind="regex", text="[a-c]{2,5}"))),
            "prediction": "ab ab ab",
            "deadline_s": dice.choice((1e-9, 1e-3, 1000.0, -1.0)),
            "echo": True,
        }
        chosen = dice.sample(sorted(rare), k=dice.choice((0, 0, 1, 2, 4)))
        return usual | {name: rare[name] for name in chosen}
