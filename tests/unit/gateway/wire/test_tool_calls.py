"""Streamed tool calls, as upstreams get them wrong, put together the way that clients do it: by index."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamInvalid
from gateway.wire.tool_calls import ToolCallRepair

ROME, OSLO = '{"city": "Ro\\"me"}', '{"city": "Os[lo"}'


def part(
    index: int | None = None,
    id: str | None = None,  # noqa: A002  # the wire's own name
    name: str | None = None,
    arguments: Any = None,
) -> dict[str, Any]:
    """One entry of ``delta.tool_calls`` with only the given members."""
    function = {"name": name, "arguments": arguments}
    entry = {"index": index, "id": id, "function": {key: value for key, value in function.items() if value is not None}}
    return {key: value for key, value in entry.items() if value is not None}


def joined(deltas: list[list[dict[str, Any]]]) -> list[tuple[str, str, str]]:
    """What a client makes of the repaired deltas: id, name and arguments of each call, strings simply joined."""
    repair = ToolCallRepair()
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        for entry in repair.repair(0, delta) or delta:
            call = calls.setdefault(entry["index"], ["", "", ""])
            call[0] += entry.get("id") or ""
            call[1] += entry["function"].get("name") or ""
            call[2] += entry["function"].get("arguments") or ""
    assert list(range(len(calls))) == sorted(calls)
    return [tuple(calls[index]) for index in sorted(calls)]


def cut(text: str) -> list[str]:
    """The text in small pieces, none of them JSON."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


SHAPES: dict[str, list[list[dict[str, Any]]]] = {
    "whole calls, one a chunk, all with index 0": [
        [part(0, "a", "weather", ROME)],
        [part(0, "b", "weather", OSLO)],
        [part(0, "c", "clock", "{}")],
    ],
    "fragments, all with index 0, ids only at first": [
        [part(0, "a", "weather", "")],
        *[[part(0, arguments=text)] for text in cut(ROME)],
        [part(0, "b", "weather", "")],
        *[[part(0, arguments=text)] for text in cut(OSLO)],
        [part(0, "c", "clock", "{}")],
    ],
    "interleaved, all with index 0, told apart by id": [
        [part(0, "a", "weather", ""), part(0, "b", "weather", "")],
        *[[part(0, "a", arguments=x), part(0, "b", arguments=y)] for x, y in zip(cut(ROME), cut(OSLO), strict=True)],
        [part(0, "c", "clock", "{}")],
    ],
    "interleaved, told apart by index": [
        [part(0, "a", "weather", ""), part(1, "b", "weather", ""), part(2, "c", "clock", "")],
        *[[part(1, arguments=y), part(0, arguments=x)] for x, y in zip(cut(ROME), cut(OSLO), strict=True)],
        [part(2, arguments="{}")],
    ],
    "index missing": [
        [part(None, "a", "weather", "")],
        *[[part(arguments=text)] for text in cut(ROME)],
        [part(None, "b", "weather", "")],
        *[[part(arguments=text)] for text in cut(OSLO)],
        [part(None, "c", "clock", "{}")],
    ],
    "id and name in every fragment": [
        *[[part(0, "a", "weather", text)] for text in cut(ROME)],
        *[[part(1, "b", "weather", text)] for text in cut(OSLO)],
        [part(2, "c", "clock", "{}")],
    ],
    "empty id and name in later fragments": [
        [part(0, "a", "weather", "")],
        *[[part(0, "", "", text)] for text in cut(ROME)],
        [part(1, "b", "weather", "")],
        *[[part(1, "", "", text)] for text in cut(OSLO)],
        [part(2, "c", "clock", "{}")],
    ],
    "indexes that begin at one": [
        [part(1, "a", "weather", ROME)],
        [part(2, "b", "weather", OSLO)],
        [part(3, "c", "clock", "{}")],
    ],
    "arguments as an object": [
        [part(0, "a", "weather", json.loads(ROME))],
        [part(1, "b", "weather", json.loads(OSLO))],
        [part(2, "c", "clock", {})],
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_call_has_its_own_index_and_says_id_and_name_once(shape: str) -> None:
    """Joined by index, the calls are those that the model made."""
    calls = [(id_, name, json.loads(arguments)) for id_, name, arguments in joined(SHAPES[shape])]
    expected = [("a", "weather", json.loads(ROME)), ("b", "weather", json.loads(OSLO)), ("c", "clock", {})]
    assert expected == calls


WITHOUT_IDS: dict[str, list[list[dict[str, Any]]]] = {
    "whole, two calls to the same tool, index 0": [[part(0, name="weather", arguments=t)] for t in (ROME, OSLO)],
    "whole, index missing": [[part(name="weather", arguments=text)] for text in (ROME, OSLO)],
    "fragments, name at first, index 0": [
        [part(0, name="weather", arguments=text) if at == 0 else part(0, arguments=text)]
        for whole in (ROME, OSLO)
        for at, text in enumerate(cut(whole))
    ],
    "fragments, empty arguments beside the name, index 0": [
        [entry]
        for whole in (ROME, OSLO)
        for entry in (part(0, name="weather", arguments=""), *(part(0, arguments=text) for text in cut(whole)))
    ],
    "fragments, name in each, index 0": [
        [part(0, name="weather", arguments=text)] for whole in (ROME, OSLO) for text in cut(whole)
    ],
    "several in one chunk, index missing": [
        [part(name="weather", arguments=""), part(name="weather", arguments="")],
        *[[part(arguments=x), part(arguments=y)] for x, y in zip(cut(ROME), cut(OSLO), strict=True)],
    ],
    "the same id twice": [[part(0, "x", "weather", ROME)], [part(0, "x", "weather", OSLO)]],
}


@pytest.mark.parametrize("shape", WITHOUT_IDS)
def test_calls_without_ids_are_told_apart_and_get_one_each(shape: str) -> None:
    """A call whose arguments are whole cannot grow, so more arguments are another call."""
    calls = joined(WITHOUT_IDS[shape])
    assert [("weather", ROME), ("weather", OSLO)] == [call[1:] for call in calls]
    assert 2 == len({id_ for id_, _, _ in calls} - {""})


def test_another_name_or_another_index_is_another_call() -> None:
    """Even where the one before has no arguments yet."""
    by_name = joined([[part(0, name="weather", arguments="")], [part(0, name="clock", arguments="{}")]])
    assert [("weather", ""), ("clock", "{}")] == [call[1:] for call in by_name]
    by_index = joined([[part(0, "x", "weather", "")], [part(1, "x", "weather", ROME)]])
    assert [("weather", ""), ("weather", ROME)] == [call[1:] for call in by_index]
    assert 2 == len({id_ for id_, _, _ in by_index})


def test_an_id_that_comes_late_stays_with_the_one_that_the_client_knows() -> None:
    """The call has been given an id by then, and keeps it."""
    calls = joined([[part(0, name="weather", arguments="")], [part(0, "late", arguments=ROME)]])
    assert 1 == len(calls)
    assert calls[0][0].startswith("call_")
    assert ("weather", ROME) == calls[0][1:]


def test_entries_that_are_right_are_left_alone() -> None:
    """Nothing is rewritten that need not be."""
    repair = ToolCallRepair()
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert repair.repair(0, [first]) is None
    assert repair.repair(0, [{"index": 0, "function": {"arguments": '{"a'}}]) is None
    assert repair.repair(0, [{"index": 0, "id": None, "function": {"name": None, "arguments": '":1}'}}]) is None
    assert repair.repair(0, [{**first, "index": 1, "id": "b"}]) is None


def test_choices_count_their_calls_apart() -> None:
    """Index 0 of one choice is not index 0 of another."""
    repair = ToolCallRepair()
    for choice in (0, 1):
        first = {"index": 0, "id": f"a{choice}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        assert repair.repair(choice, [first]) is None


def test_a_backslash_at_a_cut_does_not_end_a_string_early() -> None:
    """The escaped quotation mark is text although its backslash came before."""
    texts = ['{"a":"\\', '"}', '"}', ' {"b":1}']
    calls = joined([[part(0, "a", "f", "")], *[[part(0, arguments=text)] for text in texts]])
    assert ['{"a":"\\"}"}', ' {"b":1}'] == [arguments for _, _, arguments in calls]


@pytest.mark.parametrize("entries", [["x"], [None], [[]]])
def test_an_entry_that_is_no_object_is_no_answer(entries: list[Any]) -> None:
    """There is nothing to repair it to."""
    with pytest.raises(UpstreamInvalid):
        ToolCallRepair().repair(0, entries)


@pytest.mark.parametrize("function", ["x", 1, None, []])
def test_a_function_that_is_no_object_counts_as_none(function: Any) -> None:
    """The call is there, without a name or arguments."""
    assert [("a", "", "")] == joined([[{"index": 0, "id": "a", "function": function}]])


def test_there_is_an_end_to_calls() -> None:
    """What is remembered of a stream is bounded."""
    entries = [part(0, f"id{at}", "f", "{}") for at in range(513)]
    with pytest.raises(UpstreamInvalid, match="more than 512 tool calls"):
        ToolCallRepair().repair(0, entries)
