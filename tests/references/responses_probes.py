"""One request for each field that OpenAI's Responses document."""

from typing import Any

from tests.references.probe import Fields, Probe

_PNG = "data:image/png;base64,iVBORw0KGgo="
_PDF = "data:application/pdf;base64,JVBERi0="
_SCHEMA: Fields = {"type": "object", "properties": {"a": {"type": "string"}}}
_FUNCTION: Fields = {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA}
_FREE: Fields = {"type": "custom", "name": "p", "description": "d"}
_QUESTION: Fields = {"role": "user", "content": "hi"}
_CALL: Fields = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":"b"}'}
_RESULT: Fields = {"type": "function_call_output", "call_id": "c1", "output": "r"}


def _plain(**fields: Any) -> list[Probe]:
    return [Probe(name=name, fields={name: value}) for name, value in fields.items()]


def _said(name: str, *items: Fields) -> Probe:
    """Items at the end of a conversation."""
    return Probe(name=name, fields={"input": [_QUESTION, *items]}, beside={"input": [_QUESTION]})


def _part(name: str, part: Fields) -> Probe:
    """A part of a message."""
    return Probe(
        name=f"input.content ({name})",
        fields={"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, part]}]},
        beside={"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    )


RESPONSE = [
    *_plain(
        instructions="s",
        temperature=0,
        top_p=0.5,
        max_output_tokens=7,
        stream=True,
        user="u",
        metadata={"k": "v"},
        store=False,
        service_tier="flex",
        safety_identifier="s",
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        previous_response_id="resp_of_another",
        conversation="conv_1",
        prompt={"id": "pmpt_1"},
        truncation="auto",
        max_tool_calls=3,
        background=False,
        top_logprobs=3,
        future_field=1,
    ),
    Probe(
        name="stream_options",
        fields={"stream": True, "stream_options": {"include_obfuscation": False}},
        beside={"stream": True},
    ),
    Probe(name="include (logprobs)", fields={"include": ["message.output_text.logprobs"]}),
    Probe(name="include (reasoning)", fields={"include": ["reasoning.encrypted_content"]}),
    Probe(
        name="reasoning.effort",
        fields={"reasoning": {"effort": "low"}, "max_output_tokens": 4096},
        beside={"max_output_tokens": 4096},
    ),
    Probe(name="reasoning.summary", fields={"reasoning": {"summary": "auto"}}),
    Probe(name="text.format (json_object)", fields={"text": {"format": {"type": "json_object"}}}),
    Probe(
        name="text.format (json_schema)",
        fields={"text": {"format": {"type": "json_schema", "name": "n", "schema": _SCHEMA}}},
    ),
    Probe(name="text.verbosity", fields={"text": {"verbosity": "low"}}),
    Probe(name="tools", fields={"tools": [_FUNCTION]}),
    Probe(name="tools.strict", fields={"tools": [{**_FUNCTION, "strict": True}]}, beside={"tools": [_FUNCTION]}),
    Probe(name="tools (custom)", fields={"tools": [_FREE]}),
    Probe(name="tools (namespace)", fields={"tools": [{"type": "namespace", "name": "n", "tools": [_FUNCTION]}]}),
    Probe(name="tools (web_search)", fields={"tools": [{"type": "web_search"}]}),
    Probe(name="tool_choice", fields={"tools": [_FUNCTION], "tool_choice": "required"}, beside={"tools": [_FUNCTION]}),
    Probe(
        name="tool_choice (function)",
        fields={"tools": [_FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
        beside={"tools": [_FUNCTION]},
    ),
    Probe(
        name="parallel_tool_calls",
        fields={"tools": [_FUNCTION], "parallel_tool_calls": False},
        beside={"tools": [_FUNCTION]},
    ),
    _said("input (developer)", {"role": "developer", "content": "s"}, _QUESTION),
    _said("input (function_call and its output)", _CALL, _RESULT),
    _said(
        "input (custom_tool_call and its output)",
        {"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": "a"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "r"},
    ),
    _said(
        "input (reasoning, another's)",
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"role": "assistant", "content": "b"},
        _QUESTION,
    ),
    _said("input (item_reference)", {"type": "item_reference", "id": "msg_1"}),
    _part("image, data", {"type": "input_image", "image_url": _PNG}),
    _part("image, address", {"type": "input_image", "image_url": "https://a.example/b.png"}),
    _part("file, data", {"type": "input_file", "filename": "f.pdf", "file_data": _PDF}),
    _part("file, id", {"type": "input_file", "file_id": "f"}),
    _part("audio", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
]
