"""The tools of a request: checked, held to their schemas on a toy vocabulary, and read back."""

import json
from typing import Any

import numpy as np
import pytest

from embedded_engine.characters import Characters
from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import ChatMessage, Generate, GrammarText
from embedded_engine.sampling.grammar_compiler import GrammarCompiler
from embedded_engine.tools.families import FAMILIES, Family
from embedded_engine.tools.offer import Offer, make_offer
from embedded_engine.turns import CallPiece, Tool
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import END, ToyKernels

PARAMETERS = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"enum": ["Paris"]}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }
)
TOOLS = (Tool(name="weather", parameters=PARAMETERS), Tool(name="clock"))
VOCABULARY = Vocabulary(ToyKernels())
COMPILER = GrammarCompiler(VOCABULARY)


def _request(**fields: Any) -> Generate:
    return Generate(messages=(ChatMessage(role="user", content="x"),), **{"tools": TOOLS, **fields})


def _offer(family: Family = FAMILIES[0], **fields: Any) -> Offer | None:
    return make_offer(_request(**fields), family, control={}, compile_=COMPILER.compile)


def _walk(offer: Offer, *, seed: int, most: int = 400) -> tuple[str, list[tuple[str, str]], bool]:
    """A model without taste: any token that the grammar allows, text before white space; and what is read of it."""
    assert offer.grammar is not None
    grammar, reader, random = COMPILER.compile(offer.grammar)(), offer.reader(), np.random.default_rng(seed)
    said: list[Any] = []
    characters = Characters()
    for _ in range(most):
        forced = grammar.forced()
        allowed = forced[:1] or [int(token) for token in grammar.allowed()]
        choices = [token for token in allowed if token not in (9, 10, 13, 32)] or allowed
        token = END if END in choices else int(random.choice(choices))
        if token == END:
            said += reader.finish()
            break
        grammar.advance(token)
        said += reader.feed(characters.feed(VOCABULARY.pieces[token]))
    calls: list[tuple[str, str]] = []
    for piece in (part for part in said if isinstance(part, CallPiece)):
        if piece.id:
            calls.append((piece.name, ""))
        calls[piece.index] = (calls[piece.index][0], calls[piece.index][1] + piece.arguments)
    return "".join(part for part in said if isinstance(part, str)), calls, token == END


@pytest.mark.parametrize("family", FAMILIES, ids=lambda it: it.name)
@pytest.mark.parametrize("choice", ["required", "function"])
def test_a_call_that_must_be_made_is_made_and_read(family: Family, choice: Any) -> None:
    """In each family's own way; the named function and no other, with arguments to its schema."""
    offer = _offer(
        family, tool_choice=choice, tool_name="weather" if choice == "function" else "", parallel_tool_calls=False
    )
    assert offer is not None
    for seed in range(3):
        text, calls, ended = _walk(offer, seed=seed)
        assert ("", 1, True) == (text, len(calls), ended)
        name, arguments = calls[0]
        assert name in ({"weather"} if choice == "function" else {"weather", "clock"})
        assert {"weather": {"city", "days"}, "clock": set()}[name] == json.loads(arguments).keys()


def test_an_answer_or_a_call_where_both_have_a_form() -> None:
    """``response_format`` beside tools: JSON to the answer's schema, or a call."""
    schema = {
        "type": "object",
        "properties": {"ok": {"const": True}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    form = GrammarText(kind="json_schema", text=json.dumps({**schema, "additionalProperties": False}))
    for family in FAMILIES:
        offer = _offer(family, grammar=form, parallel_tool_calls=False)
        assert offer is not None
        for text, calls, ended in [_walk(offer, seed=seed) for seed in range(6)]:
            assert ended
            assert len(calls) == 1 if calls else json.loads(text) == {"ok": True}


def test_a_form_that_is_no_json_cannot_be_had_beside_tools() -> None:
    """It is named."""
    with pytest.raises(InvalidRequest) as caught:
        _offer(grammar=GrammarText(kind="regex", text="a", param="guided_regex"))
    assert "guided_regex" == caught.value.param


def test_where_no_tool_may_be_called_there_is_no_offer() -> None:
    """No tools, or a choice of none."""
    assert _offer(tools=()) is None
    assert _offer(tool_choice="none") is None


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (Tool(name=""), "tools[1].function.name"),
        (Tool(name="a b"), "tools[1].function.name"),
        (Tool(name="x" * 65), "tools[1].function.name"),
        (Tool(name="first"), "tools[1].function.name"),
        (Tool(name="b", parameters="{"), "tools[1].function.parameters"),
        (Tool(name="b", parameters="[]"), "tools[1].function.parameters"),
        (Tool(name="b", parameters='{"type": "string"}'), "tools[1].function.parameters"),
    ],
)
def test_a_tool_that_is_badly_defined_is_named(tool: Tool, param: str) -> None:
    """Whatever the choice is."""
    for choice in ("auto", "none", "required"):
        with pytest.raises(InvalidRequest) as caught:
            _offer(tools=(Tool(name="first"), tool), tool_choice=choice)
        assert param == caught.value.param


def test_a_schema_that_cannot_be_kept_matters_where_it_must_be() -> None:
    """A strict tool that must be called is refused by its field; one that may be called is read without a grammar."""
    strange = Tool(name="b", parameters='{"properties": {"a": {"$ref": "http://elsewhere/x"}}}', strict=True)
    with pytest.raises(InvalidRequest) as caught:
        _offer(tools=(Tool(name="a"), strange), tool_choice="required")
    assert "tools[1].function.parameters" == caught.value.param
    offer = _offer(tools=(Tool(name="a"), strange))
    assert offer is not None
    assert offer.grammar is None


def test_too_many_tools() -> None:
    """OpenAI's bound."""
    with pytest.raises(InvalidRequest, match="at most 128"):
        _offer(tools=tuple(Tool(name=f"t{number}") for number in range(129)))


@pytest.mark.parametrize("fields", [{"tool_choice": "required"}, {"tool_choice": "function", "tool_name": "x"}])
def test_a_choice_without_tools(fields: dict[str, Any]) -> None:
    """There is nothing to call."""
    with pytest.raises(InvalidRequest) as caught:
        _offer(tools=(), **fields)
    assert "tool_choice" == caught.value.param
