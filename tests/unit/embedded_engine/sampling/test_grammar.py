import json
import re
import sys

import numpy as np
import pytest

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import GrammarText
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.grammar_compiler import GrammarCompiler
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import END, TURN_END, ToyKernels

_VOCABULARY = Vocabulary(ToyKernels())
_COMPILER = GrammarCompiler(_VOCABULARY)
_CLOSING = np.array([ord(character) for character in '"}],0'], np.intp)


def _text(grammar: GrammarText, seed: int, *, most: int = 400) -> str | None:
    """What a model without any sense, but with an urge to come to an end, says; None where it came to none."""
    chooser = Chooser(
        Sampling(seed=seed), choice=0, prompt=(), ends=_VOCABULARY.ends, grammar=_COMPILER.compile(grammar)()
    )
    dice, said = np.random.default_rng(seed), b""
    for _ in range(most):
        row = dice.standard_normal(261).astype(np.float32)
        row[_CLOSING] += np.float32(3)
        row[[END, TURN_END]] += np.float32(4)
        drawn = chooser.draw(row)
        if drawn.token in _VOCABULARY.ends:
            return said.decode()
        said += _VOCABULARY.pieces[drawn.token]
        chooser.advance(drawn.token)
    return None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("regex", "[a-c]{2,4}/[0-9]+", "[a-c]{2,4}/[0-9]+"),
        ("regex", "[0-9]{3}-[0-9]{4}|none", "[0-9]{3}-[0-9]{4}|none"),
        ("regex", r"a\/b", "a/b"),
        ("choice", '["yes", "no", "not at all"]', "yes|no|not at all"),
        ("choice", '["a.b", "c*", "(d)", "e/f", "ü\\n\\"#"]', re.escape("a.b") + r'|c\*|\(d\)|e/f|ü\n"\#'),
        ("lark", 'start: "(" start ")" | "x"', r"\(*x\)*"),
        ("lark", 'start: WORD (" " WORD)*\nWORD: /[ab]+/', "[ab]+( [ab]+)*"),
    ],
)
def test_what_is_said_is_in_the_language(kind: str, text: str, expected: str) -> None:
    """From end to end, for twenty seeds each."""
    grammar = GrammarText(kind=kind, text=text)  # type: ignore[arg-type] # a literal
    said = [_text(grammar, seed) for seed in range(20)]
    assert all(re.fullmatch(expected, each, re.DOTALL) for each in said if each is not None)
    assert any(each is not None for each in said)


def test_any_object_is_an_object() -> None:
    """JSON mode says nothing but objects, and is satisfied with an empty one."""
    said = [_text(GrammarText(kind="json_object"), seed) for seed in range(20)]
    values = [json.loads(each) for each in said if each is not None]
    assert len(values) > 5
    assert all(isinstance(value, dict) for value in values)


def test_a_schema_inside_a_lark_grammar_is_kept() -> None:
    """As tool calls are written: a frame around arguments."""
    grammar = GrammarText(
        kind="lark",
        text='start: "<call>" @arguments "</call>"',
        schemas=(
            (
                "arguments",
                json.dumps(
                    {
                        "type": "object",
                        "properties": {"x": {"enum": [1, 2]}},
                        "required": ["x"],
                        "additionalProperties": False,
                    }
                ),
            ),
        ),
    )
    for seed in range(5):
        said = _text(grammar, seed)
        assert said is not None
        assert json.loads(said.removeprefix("<call>").removesuffix("</call>"))["x"] in (1, 2)


def test_spaces_between_parts_come_to_an_end() -> None:
    """A model that loves spaces gets at most 32 of them in a row: it cannot fill its context with nothing."""
    grammar = _COMPILER.compile(GrammarText(kind="json_schema", text='{"type": "array", "items": {"const": 1}}'))()
    chooser = Chooser(Sampling(seed=1, temperature=0), choice=0, prompt=(), ends=_VOCABULARY.ends, grammar=grammar)
    row = np.zeros(261, np.float32)
    row[ord(" ")] = 9
    said = b""
    for _ in range(80):
        token = chooser.draw(row).token
        said += _VOCABULARY.pieces[token]
        chooser.advance(token)
    assert 32 == max(map(len, re.findall(rb" +", said)))


def test_what_can_only_come_is_forced_in_one_piece_or_in_many() -> None:
    """One by one the tokens are those that were announced, and the mask agrees with each of them."""
    schema = {
        "type": "object",
        "properties": {"description": {"const": "fixed"}},
        "required": ["description"],
        "additionalProperties": False,
    }
    grammar = _COMPILER.compile(GrammarText(kind="json_schema", text=json.dumps(schema)))()
    forced_tokens, said = 0, b""
    while (only := grammar.allowed())[0] not in _VOCABULARY.ends:
        announced = grammar.forced()
        for place, token in enumerate(announced):
            assert announced[place:] == grammar.forced()
            assert grammar.permits(token)
            grammar.advance(token)
            said += _VOCABULARY.pieces[token]
        forced_tokens += len(announced)
        if not announced:
            token = min(int(token) for token in only if token != ord(" "))
            grammar.advance(token)
            said += _VOCABULARY.pieces[token]
    assert {"description": "fixed"} == json.loads(said)
    assert forced_tokens > 15


def test_a_grammar_that_is_complete_allows_the_end_and_is_not_fed_it() -> None:
    """Where it may go on, the end is one possibility among others; where it may not, all that is left."""
    grammar = _COMPILER.compile(GrammarText(kind="regex", text="ab?"))()
    assert not grammar.permits(END)
    grammar.advance(ord("a"))
    assert {END, TURN_END, ord("b")} == {int(token) for token in grammar.allowed()}
    assert () == grammar.forced()
    grammar.advance(END)
    grammar.advance(ord("b"))
    assert {END, TURN_END} == {int(token) for token in grammar.allowed()}
    assert () == grammar.forced()


def test_each_choice_has_its_own_place() -> None:
    """The grammar is compiled once and begun anew."""
    begin = _COMPILER.compile(GrammarText(kind="regex", text="abc"))
    first, second = begin(), begin()
    first.advance(ord("a"))
    assert first.permits(ord("b"))
    assert not second.permits(ord("b"))


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("regex", "(a", "unclosed"),
        ("regex", "(?=a)b", "look-around"),
        ("regex", "a" * 5000, "4096"),
        ("regex", "(" * 1000 + "a" + ")" * 1000, "nest"),
        ("choice", "[]", "1 to 4096"),
        ("choice", '["a", ""]', "empty"),
        ("choice", '["a", 1]', "list of texts"),
        ("choice", "yes", "list of texts"),
        ("lark", "start: nothing", "nothing"),
        ("lark", "start: " + "(" * 2000 + '"a"' + ")" * 2000, "nested"),
        ("lark", "start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(600)) + 'r600: "a"', "500"),
        ("lark", "start: X\nX: /" + "a" * 20_000 + "/", "16384"),
        ("lark", "start: X\nX: /" + "a" * 5000 + "/", "4096"),
        ("json_schema", '{"type": "integer", "multipleOf": 99991}', "10000"),
        ("json_schema", '{"$ref": "#"}', "no text can match"),
        ("regex", r"[^\s\S]", "no text can match"),
        ("lark", "start: start", "no text can match"),
        ("json_schema", "{", "no JSON"),
        ("json_schema", "[" * 100_000, "no JSON"),
        ("json_schema", '"string"', "object"),
        ("json_schema", '{"description": "' + "x" * 300_000 + '"}', "262144"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason_and_the_field(kind: str, text: str, reason: str) -> None:
    """Before the request takes a place; what was sent does not come back whole."""
    with pytest.raises(InvalidRequest, match=reason) as caught:
        _COMPILER.compile(GrammarText(kind=kind, text=text, param="guided"))  # type: ignore[arg-type] # a literal
    assert "guided" == caught.value.param
    assert str(caught.value).startswith("guided cannot be kept: ")
    assert len(str(caught.value)) < 500


def test_as_many_names_as_are_allowed_can_be_kept() -> None:
    """A thousand, none of them required: the most ambiguous object there can be."""
    schema = {
        "type": "object",
        "properties": {f"p{number}": {} for number in range(1000)},
        "additionalProperties": False,
    }
    grammar = _COMPILER.compile(GrammarText(kind="json_schema", text=json.dumps(schema)))()
    for token in b'{"p998":1,"p99':
        assert grammar.permits(token)
        grammar.advance(token)
    assert grammar.permits(ord("9"))
    assert not grammar.permits(ord("8"))  # it is there already


def test_a_keyword_that_cannot_be_kept_is_passed_over_where_nobody_insists() -> None:
    """`strict` decides."""
    text = json.dumps({"type": "array", "items": {"enum": [1]}, "uniqueItems": True, "maxItems": 1})
    with pytest.raises(InvalidRequest, match="uniqueItems"):
        _COMPILER.compile(GrammarText(kind="json_schema", text=text))
    loose = GrammarText(kind="json_schema", text=text, strict=False)
    assert _text(loose, 1) in ("[]", "[1]")


def test_a_schema_cannot_change_how_it_is_compiled() -> None:
    """Options of the library inside a client's schema are replaced by ours."""
    schema = {"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}
    with pytest.raises(InvalidRequest, match="uniqueItems"):
        _COMPILER.compile(GrammarText(kind="json_schema", text=json.dumps(schema)))


def test_an_engine_without_the_library_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves everything else."""
    monkeypatch.setitem(sys.modules, "llguidance", None)
    compiler = GrammarCompiler(_VOCABULARY)
    with pytest.raises(InvalidRequest, match=r"pip install 'headrace\[engine\]'"):
        compiler.compile(GrammarText(kind="json_object"))


def test_a_model_without_an_end_token_says_so() -> None:
    """It could never end what it says."""
    vocabulary = Vocabulary(ToyKernels())
    vocabulary.ends = frozenset()
    with pytest.raises(InvalidRequest, match="end token"):
        GrammarCompiler(vocabulary).compile(GrammarText(kind="json_object"))


def test_only_the_latest_grammars_are_kept() -> None:
    """Callers may send a new schema with every request."""
    compiler = GrammarCompiler(_VOCABULARY)
    for number in range(70):
        compiler.compile(GrammarText(kind="regex", text=f"a{number}"))
    assert 64 == len(compiler._compiled)
    kept = compiler._compiled[GrammarText(kind="regex", text="a69")]
    compiler.compile(GrammarText(kind="regex", text="a69"))
    assert kept is compiler._compiled[GrammarText(kind="regex", text="a69")]


def test_a_grammar_that_grows_over_its_bounds_fails_its_request() -> None:
    """The library gives up in the middle of an answer: that is said, with the field."""
    grammar = _COMPILER.compile(GrammarText(kind="regex", text="((a{1,1000}){1,1000}){1,1000}"))()

    def go_on() -> None:
        for _ in range(1000):
            grammar.permits(ord("a"))
            grammar.advance(ord("a"))

    with pytest.raises(InvalidRequest, match="response_format cannot be kept any further"):
        go_on()
