from collections.abc import Callable
from typing import Any

import pytest

from gateway.judgement import Answer
from gateway.types import ChatRequest
from policies.judge.json_schema import JsonSchema
from policies.judge.tool_arguments import ToolArguments
from policies.judge.valid_json import ValidJson

Says = Callable[..., Answer]
Asks = Callable[..., ChatRequest]

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
TIME = {"type": "function", "function": {"name": "time"}}


@pytest.mark.parametrize(
    ("text", "fenced", "success"),
    [
        ('{"a": 1}', False, True),
        ("  [1, 2]\n", False, True),
        ("null", False, True),
        ('{"a": 1} and more', False, False),
        ('{"a": NaN}', False, False),
        ("", False, False),
        ('```json\n{"a": 1}\n```', False, False),
        ('```json\n{"a": 1}\n```', True, True),
        ("```\n[]\n```\n", True, True),
        ('Here it is: ```json\n{"a": 1}\n```', True, False),
    ],
)
def test_json_is_the_whole_text(says: Says, asks: Asks, text: str, fenced: bool, success: bool) -> None:
    """From the first character to the last, but for a fence where the policy file says so."""
    assert success is ValidJson(fenced=fenced).judge(asks(), says(text)).success


def test_a_choice_that_only_calls_tools_has_no_json_to_judge(says: Says, asks: Asks) -> None:
    """It cannot say, and does not fail it."""
    assert ValidJson().judge(asks(), says(calls=(("weather", "{}"),))).success is None
    schema = {"type": "json_schema", "json_schema": {"schema": CITY}}
    assert JsonSchema().judge(asks(response_format=schema), says(calls=(("weather", "{}"),))).success is None


def test_an_answer_is_as_good_as_its_worst_choice(says: Says, asks: Asks) -> None:
    """And the reason says which one it is."""
    said = ValidJson().judge(asks(), says("{}", "{", "[]"))
    assert (False, 0.0, "choice 2 of 3: no valid JSON") == (said.success, said.score, said.reason)


@pytest.mark.parametrize(
    ("text", "success", "reason"),
    [
        ('{"city": "Ulm"}', True, ""),
        ('{"city": 7}', False, "`type` does not hold, 1 levels deep"),
        ("{}", False, "`required` does not hold, 0 levels deep"),
        ('{"city": "Ulm", "days": [1, "two"]}', False, "`type` does not hold, 2 levels deep"),
        ("Ulm", False, "no valid JSON"),
    ],
)
def test_the_schema_of_the_request_is_the_measure(
    says: Says, asks: Asks, text: str, success: bool, reason: str
) -> None:
    """The reason names the keyword and how deep, and neither a key nor a value."""
    request = asks(response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": CITY}})
    said = JsonSchema().judge(request, says(text))
    assert (success, reason) == (said.success, said.reason)


def test_a_schema_of_the_policy_file_goes_before_that_of_the_request(says: Says, asks: Asks) -> None:
    """Whatever the request asks for."""
    judge = JsonSchema(schema={"type": "array"})
    assert judge.judge(asks(response_format={"type": "json_object"}), says("[]")).success is True
    assert judge.judge(asks(), says("{}")).success is False


@pytest.mark.parametrize(
    ("wanted", "text", "success"),
    [
        ({"type": "json_object"}, '{"any": "thing"}', True),
        ({"type": "json_object"}, "[]", False),
        ({"type": "text"}, "words", None),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "https://example.com/a.json"}}}, "{}", None),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "file:///etc/passwd"}}}, "{}", None),
        ({"type": "json_schema", "json_schema": {"schema": {"pattern": "(?=a)b"}}}, '"b"', None),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "no such type"}}}, "{}", None),
    ],
)
def test_where_the_schema_says_nothing_nobody_can(
    says: Says, asks: Asks, wanted: Any, text: str, success: bool | None
) -> None:
    """A schema that is none, or looks elsewhere, is no failure of the answer; nothing is fetched for it."""
    assert success is JsonSchema().judge(asks(response_format=wanted), says(text)).success


def test_a_pattern_that_makes_backtracking_engines_work_for_ever_is_nothing_here(says: Says, asks: Asks) -> None:
    """A client's schema cannot stop the house."""
    schema = {"type": "string", "pattern": "^(a+)+$"}
    request = asks(response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    assert JsonSchema().judge(request, says('"' + "a" * 5000 + '!"')).success is False


def test_schemas_are_compiled_once_and_forgotten_together(says: Says, asks: Asks) -> None:
    """The shelf is bounded, however many clients have schemas of their own."""
    judge = JsonSchema()
    for number in range(600):
        schema = {"type": "json_schema", "json_schema": {"schema": {"const": number}}}
        assert judge.judge(asks(response_format=schema), says(str(number))).success is True
        assert len(judge._schemas._compiled) <= 256


@pytest.mark.parametrize(
    ("calls", "success"),
    [
        ((("weather", '{"city": "Ulm"}'),), True),
        ((("weather", '{"city": "Ulm"}'), ("time", "")), True),
        ((("time", "{}"),), True),
        ((("weather", "{}"),), False),
        ((("weather", "Ulm"),), False),
        ((("weather", "[]"),), False),
        ((("forecast", "{}"),), False),
        ((("weather", '{"city": "Ulm"}'), ("weather", "{}")), False),
        ((), None),
    ],
)
def test_calls_fit_the_tools_of_the_request(says: Says, asks: Asks, calls: Any, success: bool | None) -> None:
    """The name is one of them, the arguments fit its schema; no call may be right as well."""
    assert success is ToolArguments().judge(asks(tools=[WEATHER, TIME]), says("", calls=calls)).success


@pytest.mark.parametrize(
    ("choice", "calls", "success"),
    [
        ("required", (), False),
        ("required", (("time", ""),), True),
        ({"type": "function", "function": {"name": "weather"}}, (), False),
        ({"type": "function", "function": {"name": "weather"}}, (("time", ""),), False),
        ({"type": "function", "function": {"name": "weather"}}, (("weather", '{"city": "Ulm"}'),), True),
        ("auto", (), None),
    ],
)
def test_a_call_that_was_demanded_must_come(
    says: Says, asks: Asks, choice: Any, calls: Any, success: bool | None
) -> None:
    """`tool_choice` says whether not to call is a failure."""
    request = asks(tools=[WEATHER, TIME], tool_choice=choice)
    assert success is ToolArguments().judge(request, says("words", calls=calls)).success


def test_functions_of_the_old_form_count_as_tools(says: Says, asks: Asks) -> None:
    """Some clients still send them."""
    request = asks(functions=[{"name": "weather", "parameters": CITY}])
    assert ToolArguments().judge(request, says(calls=(("weather", '{"city": 1}'),))).success is False
