"""Which bodies are no chat, and what their sender is told."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS

CHAT = FORMATS[Operation.CHAT]
Read = Callable[..., ChatRequest]
TOOL = {"type": "function", "function": {"name": "f", "description": "é", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "hi"}


SECRET = "SECRET"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": SECRET * 50}, "model"),
        ({"model": 7}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": {SECRET: SECRET}}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [SECRET]}, "messages[0]"),
        ({"messages": [USER, {"content": SECRET}]}, "messages[1].role"),
        ({"messages": [{"role": "", "content": SECRET}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": {SECRET: 1}}]}, "messages[0].content"),
        ({"messages": [USER, {"role": "user"}]}, "messages[1].content"),
        ({"messages": [{"role": "system", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "tool_call_id": SECRET}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": SECRET}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [SECRET]}]}, "messages[0].content[0]"),
        ({"messages": [{**USER, "tool_calls": [SECRET]}]}, "messages[0].tool_calls[0]"),
        ({"tools": SECRET}, "tools"),
        ({"tools": [SECRET]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"function": {"name": SECRET}}]}, "tools[0].type"),
        ({"tool_choice": 1}, "tool_choice"),
        ({"n": True}, "n"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": SECRET}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": SECRET}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": "inf"}, "top_p"),
        ({"min_p": -1}, "min_p"),
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"frequency_penalty": []}, "frequency_penalty"),
        ({"logit_bias": {SECRET: SECRET}}, "logit_bias"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": -1}, "top_logprobs"),
        ({"stop": 7}, "stop"),
        ({"stop": ["a", 7]}, "stop[1]"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {"include_usage": 1}, "stream": True}, "stream_options.include_usage"),
        ({"seed": 1.5}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"top_k": 2**31}, "top_k"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"user": 7}, "user"),
        ({"response_format": SECRET}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"metadata": SECRET}, "metadata"),
        ({"api_base": "http://10.0.0.1/SECRET"}, "api_base"),
        ({"base_url": "http://10.0.0.1/SECRET"}, "base_url"),
        ({"api_key": SECRET}, "api_key"),
        ({"model_list": [SECRET]}, "model_list"),
        ({"extra_headers": {"x": SECRET}}, "extra_headers"),
    ],
)
def test_a_wrong_field_is_refused_by_name_and_not_quoted(fields: dict[str, Any], param: str, read_chat: Read) -> None:
    """The path says where, the words say what was expected."""
    with pytest.raises(InvalidRequest) as caught:
        read_chat(**fields)
    assert param == caught.value.param
    assert SECRET not in caught.value.message


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "min_p", "presence_penalty", "max_tokens", "logit_bias", "seed"]
)
def test_a_number_that_is_not_finite_is_refused_by_name(number: bytes, name: str, arrival: Arrival) -> None:
    """It would poison an engine for everybody."""
    value = b'{"50256":%b}' % number if name == "logit_bias" else number
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"%b":%b}' % (name.encode(), value)
    with pytest.raises(InvalidRequest) as caught:
        CHAT.read(arrival, body)
    assert name == caught.value.param


def test_addresses_inside_other_fields_are_data(read_chat: Read) -> None:
    """They go on as what they are, and nobody connects to them."""
    fields = {"metadata": {"api_base": "http://10.0.0.1"}, "tools": [{**TOOL, "base_url": "http://10.0.0.1"}]}
    sent = json.loads(CHAT.upstream_body(read_chat(**fields), "m"))
    assert fields == {name: sent[name] for name in fields}


def test_limits_are_the_callers(arrival: Arrival) -> None:
    """Messages are counted, and so is nesting."""
    body = msgspec.json.encode({"model": "m", "messages": [USER] * 3})
    assert 3 == len(CHAT.read(arrival, body, BodyLimits(max_messages=3, max_depth=3)).messages)
    with pytest.raises(InvalidRequest, match="at most 2 messages"):
        CHAT.read(arrival, body, BodyLimits(max_messages=2))
    with pytest.raises(InvalidRequest, match="more deeply than 2 levels"):
        CHAT.read(arrival, body, BodyLimits(max_depth=2))
