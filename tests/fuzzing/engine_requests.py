"""Random requests to an engine: most of them sensible, some at the edges, some beyond them."""

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from embedded_engine.messages import ChatMessage, Embed, Generate, GrammarText, Tool
from embedded_engine.speculative import DRAFTERS, Speculative

_WORDS = (
    "the water",
    "runs",
    "ab" * 20,
    "naïve",
    "東京",
    "😀🌊",
    "\x00\x1b",
    "<|end|>",
    "```json\n",
    '{"a": [1, 2]}',
    " ",
)
_STOPS = ("a", "ab", "\n", "e r", "😀", "}", "water runs")
_SCHEMAS = (
    {"type": "object"},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["a", "ü", None]}, "maxItems": 3},
    {"type": "string", "maxLength": 4},
    {"const": "fixed"},
    {"type": "string", "not": {}},
)
_GRAMMARS = (
    GrammarText(kind="json_object"),
    GrammarText(kind="choice", text='["yes", "no", "not at all"]'),
    GrammarText(kind="regex", text="[a-z ]{2,20}"),
    GrammarText(kind="regex", text="(a"),
    GrammarText(kind="lark", text='start: "(" start ")" | "x"'),
    *(GrammarText(kind="json_schema", text=json.dumps(schema)) for schema in _SCHEMAS),
)
_TOOL = Tool(name="find", parameters='{"type":"object","properties":{"q":{"type":"string","maxLength":4}}}')

_Maker = Callable[[Random], Any]

_SENSIBLE: Mapping[str, tuple[float, _Maker]] = {
    "temperature": (0.5, lambda dice: dice.choice([0, 0.3, 0.7, 1, 2])),
    "top_k": (0.3, lambda dice: dice.randint(0, 300)),
    "top_p": (0.3, lambda dice: dice.choice([0.01, 0.5, 0.9, 1])),
    "min_p": (0.2, lambda dice: dice.choice([0, 0.05, 1])),
    "repetition_penalty": (0.2, lambda dice: dice.choice([0.01, 0.8, 1.2, 100])),
    "presence_penalty": (0.2, lambda dice: dice.uniform(-2, 2)),
    "frequency_penalty": (0.2, lambda dice: dice.uniform(-2, 2)),
    "logit_bias": (0.2, lambda dice: tuple((token, dice.uniform(-100, 100)) for token in dice.sample(range(256), 3))),
    "ignore_eos": (0.1, lambda _: True),
    "logprobs": (0.4, lambda dice: dice.choice([0, 1, 5, 20])),
    "n": (0.3, lambda dice: dice.randint(1, 3)),
    "seed": (0.5, lambda dice: dice.randint(-(2**63), 2**63 - 1)),
    "stop": (0.3, lambda dice: tuple(dice.sample(_STOPS, dice.randint(1, 3)))),
    "grammar": (0.25, lambda dice: dice.choice(_GRAMMARS)),
    "prediction": (0.2, lambda dice: " ".join(dice.choices(_WORDS, k=5))),
    "speculative": (
        0.3,
        lambda dice: Speculative(
            enabled=dice.random() < 0.7,
            n_max=dice.randint(0, 16),
            drafters=dice.choice([None, DRAFTERS[:2]]),
            exactness=dice.choice(["kernels", "strict"]),
        ),
    ),
    "scope": (0.5, lambda dice: dice.choice(["one", "two"])),
    "predicted_tokens": (0.3, lambda dice: dice.randint(0, 100)),
}
_BAD: Mapping[str, _Maker] = {
    "temperature": lambda dice: dice.choice([float("nan"), -1, float("inf")]),
    "top_p": lambda dice: dice.choice([0, 1.1, float("nan")]),
    "top_k": lambda _: -1,
    "min_p": lambda _: 2,
    "max_tokens": lambda dice: dice.choice([0, -1]),
    "n": lambda dice: dice.choice([0, 1000]),
    "logit_bias": lambda dice: dice.choice([((-1, 0.0),), ((10**9, 0.0),), ((1, 101.0),), ((1, 0.0), (1, 0.0))]),
    "logprobs": lambda dice: dice.choice([-1, 21]),
    "stop": lambda dice: dice.choice([("",), ("x",) * 65]),
    "text": lambda dice: dice.choice(["", "\ud800", "x" * 5000]),
    "repetition_penalty": lambda dice: dice.choice([0, float("nan")]),
    "min_tokens": lambda _: -1,
}


def random_request(dice: Random, number: int) -> Generate:
    """A request of that number; one in twelve has a field that must be refused."""
    fields: dict[str, Any] = {"id": number, "max_tokens": dice.choice([None, 1, 2, 10, 40])}
    for name, (probability, make) in _SENSIBLE.items():
        if dice.random() < probability:
            fields[name] = make(dice)
    kind = dice.random()
    if kind < 0.2:
        fields["messages"] = (ChatMessage(role="user", content=_text(dice)),)
        if dice.random() < 0.5 and "grammar" not in fields:
            fields |= {"tools": (_TOOL,), "tool_choice": dice.choice(["auto", "none", "required"])}
    else:
        fields |= {"text": _text(dice)} if kind < 0.9 else {"token_ids": tuple(_text(dice).encode())}
        fields["echo"] = dice.random() < 0.2
        if fields["echo"] and dice.random() < 0.3:
            fields["max_tokens"] = 0
    if fields["max_tokens"] and dice.random() < 0.2:
        fields["min_tokens"] = dice.randint(0, fields["max_tokens"])
    if dice.random() < 1 / 12:
        name = dice.choice([name for name in _BAD if name != "text" or "text" in fields])
        fields[name] = _BAD[name](dice)
    return Generate(**fields)


def random_texts(dice: Random, number: int) -> Embed:
    """A request for vectors; one in ten has an empty text."""
    texts = [_text(dice) for _ in range(dice.randint(1, 4))]
    return Embed(id=number, texts=(*texts, "") if dice.random() < 0.1 else tuple(texts))


def _text(dice: Random) -> str:
    return " ".join(dice.choices(_WORDS, k=dice.randint(1, 5)))
