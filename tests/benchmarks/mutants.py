"""Cases for ``fuzz_transport.py``, made out of words of HTTP and out of other cases."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzzing.case import Case  # found by the line above
from tests.fuzzing.clients import SERVICES  # likewise

MOST_STEPS = 30
MOST_TEXT = 4000

Step = tuple[str, str | int]

WORDS = {
    "server": [
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n",
        "POST /v1/completions?a=b HTTP/1.0\r\n",
        "POST /v1/completions HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n",
        "GET /site HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET /site HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
        "POST /site HTTP/1.1\r\nhost: h\r\n",
        "HEAD /v1/chat/completions HTTP/1.1\r\n",
        "CONNECT h:1 HTTP/1.1\r\nhost: h\r\n\r\n",
        "host: h\r\n",
        "content-length: 5\r\n",
        "content-length: 600\r\n",
        "transfer-encoding: chunked\r\n",
        "expect: 100-continue\r\n",
        "connection: close\r\n",
        "connection: upgrade\r\nupgrade: h2c\r\n",
        "content-encoding: gzip\r\n",
        "a: b\r\n",
        "a: b\r\n" * 9,
        "\r\n",
        "hello",
        "5\r\nhello\r\n",
        "5;a=b\r\nhello\r\n",
        "0\r\n\r\n",
        "0\r\na: b\r\n\r\n",
        "x" * 600,
        "\x1f\x8b\x08",
    ],
    "upstream": [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
        "HTTP/1.1 503 No\r\nretry-after: 1\r\n",
        "connection: close\r\n",
        "content-length: 5\r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip\r\n",
        "a: b\r\n",
        "\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "0\r\na: b\r\n\r\n",
        "ffffffffffffffff\r\n",
        "hello",
    ],
}
_CHAT, _OPEN, _CHUNKED, _GET = WORDS["server"][0], WORDS["server"][1], WORDS["server"][3], WORDS["server"][4]
SEEDS = [
    Case("server", "large", (("hold", 0), ("send", _CHAT * 3), ("advance", 4), ("take", 1), ("advance", 4))),
    Case("server", "large", (("hold", 0), ("send", _CHAT + "POST /v1"), ("take", 1_000_000), ("advance", 4))),
    Case("server", "large", (("hold", 0), ("send", _CHAT + _GET), ("leave", 0))),
    Case("server", "slow", (("send", _CHAT + _GET + "nonsense\r\n"), ("flood", 80), ("resume", 0), ("flood", 300))),
    Case("server", "slow", (("send", _CHAT + _CHUNKED + "5\r\nhello\r\nnonsense\r\n"), ("resume", 0))),
    Case("server", "late", (("send", _OPEN + "content-length: 999999\r\n\r\n"), ("flood", 300), ("resume", 0))),
    Case("server", "refuse", (("send", _OPEN + "content-length: 80000\r\n\r\n"), ("flood", 80), ("send", _GET))),
    Case("server", "stream", (("hold", 0), ("send", _CHAT * 2), ("shutdown", 0), ("leave", 0))),
    Case("server", "whole", (("send", _OPEN + "expect: 100-continue\r\n" + WORDS["server"][11]), ("advance", 5))),
    Case("upstream", "late", (("send", "HTTP/1.0 200 OK\r\n\r\n"), ("flood", 300), ("go", 0), ("eof", 0))),
    Case("upstream", "two", (("send", WORDS["upstream"][1]), ("send", WORDS["upstream"][2] + "5\r\nhel"), ("eof", 0))),
    Case("upstream", "one", (("send", WORDS["upstream"][3]), ("send", "HTTP/1.1 200 OK\r\na: "), ("flood", 80))),
]
"""What takes several steps to reach, and chance would need long for."""

BYTES = ["\r", "\n", "\r\n", "\x00", " ", "\t", ":", ",", ";", "\x7f", "\xff", "0", "f", "-", "\x0b", "\x85"]
SERVICES_OF = {"server": list(SERVICES), "upstream": ["one", "two", "late"]}
NUMBERS = {"flood": [1, 20, 80, 300], "advance": [1, 4, 5, 30], "take": [1, 50_000, 1_000_000]}
VERBS = {
    "server": ["flood", "advance", "advance", "hold", "take", "take", "leave", "resume", "shutdown"],
    "upstream": ["flood", "eof", "lost", "go"],
}


class Mutator:
    """Makes cases out of others."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def new(self, driver: str) -> Case:
        """A case out of nothing."""
        steps = tuple(self._step(driver) for _ in range(self._dice.randint(1, 8)))
        return Case(driver, self._dice.choice(SERVICES_OF[driver]), steps)

    def mutate(self, case: Case, other: Case) -> Case:
        """A case that is somewhat like ``case``, and may have a bit of ``other``."""
        steps, service = list(case.steps), case.service
        for _ in range(self._dice.choice((1, 1, 2, 3, 6))):
            steps = self._change(case.driver, steps, other)
        if self._dice.random() < 0.1:
            service = self._dice.choice(SERVICES_OF[case.driver])
        return Case(case.driver, service, tuple(steps[:MOST_STEPS]))

    def _change(self, driver: str, steps: list[Step], other: Case) -> list[Step]:
        dice, at = self._dice, self._dice.randrange(len(steps) + 1)
        kind = dice.randrange(10)
        if not steps or kind == 0:
            put: list[Step] = [self._step(driver)]
        elif kind == 1:
            put, steps = [], steps[:at] + steps[at + 1 :]
        elif kind == 2:
            put, steps = list(other.steps[dice.randrange(len(other.steps) + 1) :]), steps[:at]
        elif kind == 3:
            put = steps[max(0, at - dice.randint(1, 3)) : at]
        else:
            at = dice.randrange(len(steps))
            put, steps = self._changed(driver, steps[at], kind), steps[:at] + steps[at + 1 :]
        return [*steps[:at], *put, *steps[at:]]

    def _changed(self, driver: str, step: Step, kind: int) -> list[Step]:
        verb, argument = step
        if verb != "send":
            return [self._step(driver, verb)]
        text = str(argument)
        if kind == 4:
            cut = self._dice.randrange(len(text) + 1)
            return [("send", text[:cut]), ("send", text[cut:])]
        return [("send", self._edited(text, driver))]

    def _edited(self, text: str, driver: str) -> str:
        dice = self._dice
        at = dice.randrange(len(text) + 1)
        to = min(len(text), at + dice.choice((0, 1, 1, 2, 8, 40)))
        put = dice.choice((*BYTES, "", "", dice.choice(WORDS[driver]), chr(dice.randrange(256)), text[at:to] * 2))
        return (text[:at] + put + text[to:])[:MOST_TEXT]

    def _step(self, driver: str, verb: str | None = None) -> Step:
        dice = self._dice
        verb = verb or dice.choice(("send", "send", dice.choice(VERBS[driver])))
        if verb == "send":
            return "send", dice.choice(WORDS[driver])
        return verb, dice.choice(NUMBERS.get(verb, [0]))
