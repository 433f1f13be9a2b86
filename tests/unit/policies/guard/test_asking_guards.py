from typing import Any

import msgspec
import pytest

from gateway.errors import ConfigurationError
from gateway.guard import CannotSay, Seen, Text
from gateway.guard_mark import Action, Stage
from gateway.judgement import Reply
from gateway.rules import plugins
from policies.guard.litellm import Litellm
from policies.guard.openai_moderation import OpenaiModeration


def _seen(make_request: Any, *texts: str, stage: Stage = Stage.BEFORE) -> Seen:
    shown = [Text(text, "text", "user") for text in texts]
    return Seen(stage=stage, request=make_request("hello"), texts=shown)


def _reply(**fields: Any) -> Reply:
    return Reply(code=200, body=msgspec.json.encode(fields))


def _flagged(**scores: float) -> dict[str, Any]:
    return {
        "flagged": True,
        "categories": dict.fromkeys(scores, True),
        "category_scores": {name.replace("_", "-"): score for name, score in scores.items()},
    }


def _fine(**scores: float) -> dict[str, Any]:
    return {**_flagged(**scores), "flagged": False, "categories": dict.fromkeys(scores, False)}


# ---- a moderation endpoint -----------------------------------------------------------------------------------------


def test_a_moderation_endpoint_is_asked_about_all_texts_that_say_something(make_request: Any) -> None:
    """At once, with the key of the environment."""
    guard = OpenaiModeration(action="block")
    asked = guard.look(_seen(make_request, "one", " ", "two"))
    assert ("https://api.openai.com/v1/moderations", "OPENAI_API_KEY") == (asked.url, asked.api_key_env)
    assert {"model": "omni-moderation-latest", "input": ["one", "two"]} == msgspec.json.decode(asked.body)
    assert Action.ALLOW is guard.look(_seen(make_request, "", " ")).action


def test_what_it_flags_is_a_hit_and_the_worst_category_is_told(make_request: Any) -> None:
    """In one word, for the client and for the ledger."""
    guard, seen = OpenaiModeration(action="block"), _seen(make_request, "one", "two")
    said = guard.conclude(seen, _reply(results=[_fine(hate=0.4), _flagged(violence=0.9, hate=0.7)]))
    assert (Action.BLOCK, "violence", (("value", "violence"),)) == (said.action, said.reason, said.annotations)
    fine = _reply(results=[_fine(hate=0.9)] * 2)
    assert Action.ALLOW is guard.conclude(seen, fine).action


def test_thresholds_alone_count_where_there_are_some(make_request: Any) -> None:
    """Whatever it flags."""
    guard, seen = OpenaiModeration(action="block", thresholds={"self-harm": 0.4}), _seen(make_request, "one")
    assert Action.BLOCK is guard.conclude(seen, _reply(results=[_fine(self_harm=0.4)])).action
    assert Action.ALLOW is guard.conclude(seen, _reply(results=[_flagged(self_harm=0.39)])).action
    with pytest.raises(CannotSay, match="it has no score for self-harm"):
        guard.conclude(seen, _reply(results=[_flagged(hate=0.9)]))


@pytest.mark.parametrize(
    "reply",
    [
        _reply(),
        _reply(results=[]),
        _reply(results=[_flagged(hate=1.0)] * 2),
        _reply(results=[7]),
        _reply(results=[{"flagged": 1}]),
        Reply(code=429, body=b"{}"),
    ],
)
def test_anything_else_is_no_verdict(make_request: Any, reply: Reply) -> None:
    """Of a moderation endpoint."""
    with pytest.raises(CannotSay):
        OpenaiModeration(action="block").conclude(_seen(make_request, "one"), reply)


# ---- LiteLLM's API -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["https://g.example.com", "https://g.example.com/beta/litellm_basic_guardrail_api"])
def test_a_guardrail_is_asked_in_litellms_words(make_request: Any, url: str) -> None:
    """At its path, with its key."""
    asked = Litellm(url=url, api_key_env="GUARD_KEY").look(_seen(make_request, "one", stage=Stage.AFTER))
    assert "https://g.example.com/beta/litellm_basic_guardrail_api" == asked.url
    assert (("x-api-key", "GUARD_KEY"),) == asked.secret_headers
    told = msgspec.json.decode(asked.body)
    assert (["one"], "response", "req-1") == (told["texts"], told["input_type"], told["litellm_call_id"])


def test_its_three_verdicts_are_ours(make_request: Any) -> None:
    """And its reason for blocking goes nowhere."""
    guard, seen = Litellm(url="https://g.example.com"), _seen(make_request, "one")
    assert Action.ALLOW is guard.conclude(seen, _reply(action="NONE")).action
    blocked = guard.conclude(seen, _reply(action="BLOCKED", blocked_reason="secret"))
    assert (Action.BLOCK, "") == (blocked.action, blocked.reason)
    assert ("two",) == guard.conclude(seen, _reply(action="GUARDRAIL_INTERVENED", texts=["two"])).texts


# ---- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"url": "ftp://guard"}, "`url` must be an address"),
        ({"url": "https://user:pw@guard.example.com"}, "without a user"),
        ({"url": "http://guard.example.com"}, "must begin with https://"),
        ({"url": "https://g", "headers": {"Host": "x"}}, "is no header that can be given here"),
        ({"url": "https://g", "headers": {"x-a": "b\n"}}, "characters that no header may have"),
        ({"url": "https://g", "max_reply_bytes": 0}, "must be more than zero"),
        ({"url": "https://g", "api_key_env": "sk-123"}, "never by itself"),
        ({"url": "https://g", "headers": {"x-a": {"env": "sk-123"}}}, "never by itself"),
    ],
)
@pytest.mark.parametrize("name", ["http", "litellm", "openai_moderation"])
def test_a_wrong_address_is_refused_where_it_stands(name: str, given: dict, fault: str) -> None:
    """When the policy file is read."""
    more = {"action": "block"} if name == "openai_moderation" else {}
    with pytest.raises(ConfigurationError, match="here") as caught:
        plugins.build("guard", {"use": name, **more, **given}, where="here")
    assert fault in str(caught.value)
