import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_engine.tools.families import DEFAULT, FAMILIES, Family
from embedded_engine.tools.reader import CallReader

NAMES = ("weather", "add", "look_up")
BY_NAME = {family.name: family for family in FAMILIES}

HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
_SEP = "<\uff5ctool▁sep\uff5c>"
_BEGIN = "<\uff5ctool▁{}▁begin\uff5c>".format
_END = "<\uff5ctool▁{}▁end\uff5c>".format
WRITTEN = {
    "hermes": f'{HERMES}\n<tool_call>\n{{"arguments": {{"a": [1, {{"b": "}}"}}]}}, "name": "add"}}\n</tool_call>',
    "llama3": '{"name": "weather", "parameters": {"city": "Paris"}};'
    ' {"name": "add", "parameters": {"a": [1, {"b": "}"}]}}',
    "mistral": '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"},'
    ' {"name": "add", "arguments": {"a": [1, {"b": "}"}]}}]',
    "mistral_named": '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]add[ARGS]{"a": [1, {"b": "}"}]}',
    "functionary_v3.1": '<function=weather>{"city": "Paris"}</function><function=add>{"a": [1, {"b": "}"}]}</function>',
    "functionary_v3.2": 'weather\n{"city": "Paris"}>>>add\n{"a": [1, {"b": "}"}]}',
    "pythonic": '[weather(city="Paris"), add(a=[1, {"b": "}"}])]',
    "lfm2": '<|tool_call_start|>[weather(city="Paris"), add(a=[1, {"b": "}"}])]<|tool_call_end|>',
    "granite": '<|tool_call|>[{"name": "weather", "arguments": {"city": "Paris"}},'
    ' {"name": "add", "arguments": {"a": [1, {"b": "}"}]}}]',
    "phi": '<|tool_call|>[{"name": "weather", "arguments": {"city": "Paris"}},'
    ' {"name": "add", "arguments": {"a": [1, {"b": "}"}]}}]<|/tool_call|>',
    "deepseek": f'{_BEGIN("calls")}{_BEGIN("call")}weather{_SEP}{{"city": "Paris"}}{_END("call")}'
    f'{_BEGIN("call")}add{_SEP}{{"a": [1, {{"b": "}}"}}]}}{_END("call")}{_END("calls")}',
    "deepseek_fenced": f'{_BEGIN("calls")}{_BEGIN("call")}function{_SEP}weather\n```json\n{{"city": "Paris"}}\n```'
    f'{_END("call")}\n{_BEGIN("call")}function{_SEP}add\n```json\n{{"a": [1, {{"b": "}}"}}]}}\n```'
    f"{_END('call')}{_END('calls')}",
}


class Heard:
    """What a reader said, put together."""

    def __init__(self, family: Family, pieces: list[str], **options: Any) -> None:
        reader = CallReader(family, NAMES, **{"eager": True, **options})
        self.content = ""
        self.calls: list[list[str]] = []
        self.ids: list[str] = []
        said = [part for piece in pieces for part in reader.feed(piece)] + reader.finish()
        for part in said:
            if isinstance(part, str):
                self.content += part
            elif part.name:
                assert (len(self.calls), "") == (part.index, part.arguments)
                self.calls.append([part.name, ""])
                self.ids.append(part.id)
            else:
                assert len(self.calls) - 1 == part.index
                assert (bool(part.arguments), "") == (True, part.id)
                self.calls[-1][1] += part.arguments
        assert len(self.calls) == reader.calls

    @property
    def read(self) -> tuple[str, list[tuple[str, Any]]]:
        """Content, and the calls with their arguments parsed."""
        return self.content, [(name, json.loads(arguments)) for name, arguments in self.calls]


def _cut(text: str, data: Any) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_every_family_is_under_test() -> None:
    """A new one joins."""
    assert set(BY_NAME) == set(WRITTEN)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=10)
@given(data=st.data())
def test_calls_are_read_however_they_are_cut(name: str, eager: bool, data: Any) -> None:
    """Each family's own way of writing two calls; ids differ."""
    heard = Heard(BY_NAME[name], _cut(WRITTEN[name], data), eager=eager)
    assert ("", [("weather", {"city": "Paris"}), ("add", {"a": [1, {"b": "}"}]})]) == heard.read
    assert 2 == len(set(heard.ids))


@pytest.mark.parametrize("family", [DEFAULT, BY_NAME["mistral"], BY_NAME["functionary_v3.1"]], ids=lambda it: it.name)
@given(data=st.data())
def test_what_is_said_before_and_after_is_kept(family: Family, data: Any) -> None:
    """Only the white space around the calls goes."""
    text = f"I look: <b>[x] \n{WRITTEN[family.name]}\n That is it."
    content, calls = Heard(family, _cut(text, data)).read
    assert "I look: <b>[x]\n That is it." == content
    assert 2 == len(calls)


@pytest.mark.parametrize("family", list(FAMILIES), ids=lambda it: it.name)
@settings(max_examples=25)
@given(text=st.text(alphabet='<tool_call>{}[]" :,\n|/name=;`▁', max_size=40), data=st.data())
def test_no_text_is_lost(family: Family, text: str, data: Any) -> None:
    """Whatever comes that is no call is said, and cutting it does not change it."""
    text = text if family.text_name == "" else f"all\n{text}"
    heard = Heard(family, _cut(text, data), eager=False)
    assert [] == heard.calls
    assert "".join(text.removeprefix("all\n").split()) == "".join(heard.content.split())
    assert heard.content == Heard(family, [text], eager=False).content


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "nobody", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "weather", "arguments": {"city": }}</tool_call>',
        '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "weather", "arguments": 5}</tool_call>',
        "<tool_call>weather in Paris</tool_call>",
        '<tool_call>{"name": "weather", "argum',
    ],
)
def test_a_call_that_is_none_is_said(text: str) -> None:
    """Mark and all, and a real one after it is called."""
    assert (text, []) == Heard(DEFAULT, [text], eager=False).read
    if text.endswith("</tool_call>"):
        content, calls = Heard(DEFAULT, [text, "\n", HERMES], eager=False).read
        assert (text, [("weather", {"city": "Paris"})]) == (content, calls)


def test_arguments_come_as_they_are_written_where_a_grammar_vouches_for_them() -> None:
    """First the name, then piece by piece."""
    reader = CallReader(DEFAULT, NAMES, eager=True)
    assert [] == reader.feed('<tool_call>\n{"name": "wea')
    assert [] == reader.feed('ther", "arguments": ')
    (named, first) = reader.feed('{"ci')
    assert (0, "weather", "") == (named.index, named.name, named.arguments)
    assert named.id.startswith("call_")
    assert '{"ci' == first.arguments
    (more,) = reader.feed('ty": "Paris"}')
    assert 'ty": "Paris"}' == more.arguments
    assert [] == reader.feed("}\n</tool_call>")


def test_arguments_cut_short_stay_as_far_as_they_came() -> None:
    """The bound on tokens may fall inside a call."""
    heard = Heard(DEFAULT, ['<tool_call>{"name": "weather", "arguments": {"city": "Pa'])
    assert ("", [["weather", '{"city": "Pa']]) == (heard.content, heard.calls)


@pytest.mark.parametrize(
    "cut",
    [
        '<tool_call>\n{"name": "weat',
        "<tool_call>",
        f"{HERMES[:-5]}",
        f'{HERMES}\n<tool_call>\n{{"na',
        f"{HERMES}\n<too",
    ],
)
def test_half_a_call_that_must_be_one_is_not_said(cut: str) -> None:
    """Nor half a mark: a grammar vouches that it is no text."""
    assert "" == Heard(DEFAULT, [cut]).content


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"name": "add"}', {}),
        ('{"name": "add", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"type": "function", "function": "add", "id": 7, "parameters": {"a": 1}}', {"a": 1}),
    ],
)
def test_ways_in_which_models_stray(written: str, arguments: dict[str, int]) -> None:
    """No arguments at all, arguments as text in text, other members beside."""
    assert ("", [("add", arguments)]) == Heard(DEFAULT, [f"<tool_call>{written}</tool_call>"], eager=False).read


@pytest.mark.parametrize("name", ["hermes", "llama3", "pythonic", "mistral"])
def test_one_call_at_most_where_only_one_is_wanted(name: str) -> None:
    """``parallel_tool_calls`` is false."""
    _, calls = Heard(BY_NAME[name], [WRITTEN[name]], parallel=False).read
    assert [("weather", {"city": "Paris"})] == calls


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("phi", '<|tool_call|>{"name": "add", "arguments": {"a": 1}}<|/tool_call|>'),
        ("granite", '<|tool_call|> {"name": "add", "arguments": {"a": 1}}'),
        ("lfm2", '<|tool_call_start|>[{"name": "add", "arguments": {"a": 1}}]<|tool_call_end|>'),
        ("lfm2", '<|tool_call_start|> [ {"name": "add", "arguments": {"a": 1}}, {"name": "add"} ]<|tool_call_end|>'),
        ("functionary_v3.2", '>>>add\n{"a": 1}'),
    ],
)
@settings(max_examples=10)
@given(data=st.data())
def test_models_of_one_family_differ(name: str, text: str, data: Any) -> None:
    """A bracket more or less, objects for Python, a mark that the prompt may have or not."""
    content, calls = Heard(BY_NAME[name], _cut(text, data), eager=False).read
    assert ("", ("add", {"a": 1})) == (content, calls[0])
    assert len(calls) == text.count('"name"') or name == "functionary_v3.2"


def test_functionary_says_what_it_calls_all() -> None:
    """Its way to answer in words, and to call something after them."""
    heard = Heard(BY_NAME["functionary_v3.2"], ['all\nLet me see.>>>weather\n{"city": "Paris"}'])
    assert ("Let me see.", [("weather", {"city": "Paris"})]) == heard.read


def test_llama_may_put_a_tag_before_a_call() -> None:
    """A call that is a whole answer."""
    text = '<|python_tag|>{"name": "weather", "parameters": {"city": "Paris"}}'
    assert ("", [("weather", {"city": "Paris"})]) == Heard(BY_NAME["llama3"], list(text)).read
    assert ("<|python_tag|>print(1)", []) == Heard(BY_NAME["llama3"], ["<|python_tag|>print(1)"]).read


def test_ids_are_as_long_as_the_family_wants_them() -> None:
    """Mistral's templates refuse others."""
    assert [9, 9] == [len(number) for number in Heard(BY_NAME["mistral"], [WRITTEN["mistral"]]).ids]


@pytest.mark.parametrize(
    "text", ["[weather('Paris')]", "[weather(**{})]", "[1]", "[]", "[weather(a=b)]", "[weather(a=1)"]
)
def test_python_that_is_no_call_with_named_literals(text: str) -> None:
    """It is said."""
    assert (text, []) == Heard(BY_NAME["pythonic"], [text], eager=False).read
