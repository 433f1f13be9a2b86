"""What SmolLM2-135M-Instruct says when it must say it in a form."""

import json
import re
from itertools import count
from typing import Any

import jsonschema
import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import ChatMessage, Done, Generate, GrammarText, Text
from tests.unit.embedded_engine.schemas import KEPT

pytestmark = [pytest.mark.model, pytest.mark.parametrize("engine", ["ik_llama"], indirect=True)]

_numbers = count(50_000)


def _ask(form: GrammarText, **fields: Any) -> Generate:
    prompt = (ChatMessage(role="user", content="Answer in JSON."),)
    return Generate(
        **{"id": next(_numbers), "messages": prompt, "grammar": form, "max_tokens": 30, "seed": 1, **fields}
    )


def _answers(engine: Engine, requests: list[Generate]) -> list[tuple[str, Done]]:
    """Texts and ends, in order; all requests at once, as far as there is room."""
    waiting, texts, ends = list(requests), dict.fromkeys((request.id for request in requests), ""), {}
    while waiting or engine.busy:
        while waiting and engine.running + engine.queued < 4:
            engine.submit(engine.prepare(waiting.pop(0)))
        for event in engine.step():
            if isinstance(event, Text):
                texts[event.id] += event.text
            else:
                assert isinstance(event, Done), event
                ends[event.id] = event
    return [(texts[request.id], ends[request.id]) for request in requests]


def test_every_schema_is_kept_or_the_answer_is_cut_for_length(engine: Engine) -> None:
    """At temperature 1, drafts and forced tokens included; judged by another implementation of JSON Schema."""
    requests = [
        _ask(GrammarText(kind="json_schema", text=json.dumps(schema)), temperature=1) for schema in KEPT.values()
    ]
    whole = 0
    for schema, (text, end) in zip(KEPT.values(), _answers(engine, requests), strict=True):
        if end.reason == "stop":
            jsonschema.validate(json.loads(text), schema)
            whole += 1
        else:
            assert ("length", 30) == (end.reason, end.completion_tokens)
    assert whole > len(KEPT) // 2


def test_the_forms_that_are_no_schema(engine: Engine) -> None:
    """JSON mode, one of some texts, an expression."""
    forms = [
        GrammarText(kind="json_object"),
        GrammarText(kind="choice", text='["Paris", "Rome"]'),
        GrammarText(kind="regex", text="[0-9]{4}-[0-9]{2}"),
    ]
    (mode, _), (chosen, _), (matched, _) = _answers(
        engine, [_ask(form, temperature=0, max_tokens=120) for form in forms]
    )
    assert mode.startswith("{")
    assert chosen in ("Paris", "Rome")
    assert re.fullmatch("[0-9]{4}-[0-9]{2}", matched)


def test_a_broken_schema_is_refused_and_the_next_request_is_served(engine: Engine) -> None:
    """By the field's name; nobody else hears of it."""
    with pytest.raises(InvalidRequest, match="not"):
        engine.prepare(_ask(GrammarText(kind="json_schema", text='{"not": {}}')))
    ((text, _),) = _answers(engine, [_ask(GrammarText(kind="choice", text='["yes", "no"]'))])
    assert text in ("yes", "no")
