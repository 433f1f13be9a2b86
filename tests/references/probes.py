"""One request for each field that a client format documents: what the table of translations asks every provider."""

from typing import Any

from gateway.types import Operation
from tests.references.ollama_probes import OLLAMA_CHAT, OLLAMA_GENERATE
from tests.references.probe import Fields, Probe
from tests.references.responses_probes import RESPONSE

QUESTION = {"role": "user", "content": "hi"}
PNG = "iVBORw0KGgo="
PDF = "JVBERi0="
SCHEMA: Fields = {"type": "object", "properties": {"a": {"type": "string"}}}
MARK = {"type": "ephemeral"}
FUNCTION: Fields = {"name": "f", "description": "d", "parameters": SCHEMA}
TOOL: Fields = {"type": "function", "function": FUNCTION}
CALL: Fields = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":"b"}'}}
FREE: Fields = {"type": "custom", "custom": {"name": "p", "description": "d"}}
BOUND: Fields = {
    "type": "custom",
    "custom": {
        "name": "p",
        "description": "d",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
    },
}
FREE_CALL: Fields = {"id": "c1", "type": "custom", "custom": {"name": "p", "input": "a"}}
ROOM = {"max_tokens": 4096}
CUSTOM: Fields = {"name": "f", "description": "d", "input_schema": SCHEMA}
USE: Fields = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": "b"}}
RESULT: Fields = {"type": "tool_result", "tool_use_id": "c1", "content": "r"}


def _plain(**fields: Any) -> list[Probe]:
    return [Probe(name=name, fields={name: value}) for name, value in fields.items()]


def _said(name: str, part: Any, /, *before: Any, role: str = "user", **turn: Any) -> Probe:
    """A part of a turn, or fields of it, at the end of a conversation."""
    last = {"role": role, "content": [part] if isinstance(part, dict) else part, **turn}
    without = {"role": role, "content": part if isinstance(part, str) else "hi"}
    return Probe(
        name=name,
        fields={"messages": [QUESTION, *before, last]},
        beside={"messages": [QUESTION, *before, without] if turn or isinstance(part, dict) else [QUESTION, *before]},
    )


CHAT = [
    *_plain(
        temperature=0,
        top_p=0.5,
        top_k=5,
        min_p=0.1,
        seed=7,
        n=2,
        stop=["x"],
        max_tokens=7,
        max_completion_tokens=7,
        frequency_penalty=0.5,
        presence_penalty=0.5,
        repetition_penalty=1.1,
        logit_bias={"1": 1},
        logprobs=True,
        stream=True,
        user="u",
        metadata={"k": "v"},
        store=True,
        service_tier="flex",
        safety_identifier="s",
        prompt_cache_key="k",
        cache_control=MARK,
        prediction={"type": "content", "content": "x"},
        modalities=["text", "audio"],
        verbosity="low",
        web_search_options={},
        future_field=1,
    ),
    Probe(name="top_logprobs", fields={"logprobs": True, "top_logprobs": 3}, beside={"logprobs": True}),
    Probe(
        name="stream_options",
        fields={"stream": True, "stream_options": {"include_usage": True}},
        beside={"stream": True},
    ),
    Probe(name="reasoning_effort", fields={"reasoning_effort": "low", **ROOM}, beside=ROOM),
    Probe(name="thinking", fields={"thinking": {"type": "enabled", "budget_tokens": 1024}, **ROOM}, beside=ROOM),
    Probe(name="response_format (json_object)", fields={"response_format": {"type": "json_object"}}),
    Probe(
        name="response_format (json_schema)",
        fields={"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    ),
    Probe(name="tools", fields={"tools": [TOOL]}),
    Probe(
        name="tools.function.strict",
        fields={"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
        beside={"tools": [TOOL]},
    ),
    Probe(name="tool_choice", fields={"tools": [TOOL], "tool_choice": "required"}, beside={"tools": [TOOL]}),
    Probe(name="tools (custom)", fields={"tools": [FREE]}),
    Probe(name="tools.custom.format (grammar)", fields={"tools": [BOUND]}, beside={"tools": [FREE]}),
    Probe(
        name="tool_choice (custom)",
        fields={"tools": [FREE], "tool_choice": {"type": "custom", "custom": {"name": "p"}}},
        beside={"tools": [FREE]},
    ),
    Probe(
        name="messages.tool_calls (custom)",
        fields={
            "tools": [FREE],
            "messages": [
                QUESTION,
                {"role": "assistant", "content": None, "tool_calls": [FREE_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "r"},
            ],
        },
        beside={"tools": [FREE]},
    ),
    Probe(name="parallel_tool_calls", fields={"tools": [TOOL], "parallel_tool_calls": False}, beside={"tools": [TOOL]}),
    Probe(name="functions", fields={"functions": [FUNCTION]}),
    _said("messages (system)", "s", role="system"),
    _said("messages (developer)", "s", role="developer"),
    _said("messages.name", "hi", name="Ann"),
    _said(
        "messages.content (image, data)", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    ),
    _said("messages.content (image, address)", {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}),
    _said("messages.content (audio)", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
    _said(
        "messages.content (file, data)",
        {"type": "file", "file": {"filename": "f.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    ),
    _said("messages.content (file, id)", {"type": "file", "file": {"file_id": "f"}}),
    _said("messages.content.cache_control", {"type": "text", "text": "hi", "cache_control": MARK}),
    Probe(
        name="messages.tool_calls and their results",
        fields={
            "messages": [
                QUESTION,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "r"},
            ]
        },
    ),
    Probe(
        name="messages.refusal",
        fields={"messages": [QUESTION, {"role": "assistant", "content": None, "refusal": "no"}, QUESTION]},
        beside={"messages": [QUESTION, {"role": "assistant", "content": ""}, QUESTION]},
    ),
    _said("messages.reasoning_content", "hi", role="assistant", reasoning_content="hm"),
    _said(
        "messages.thinking_blocks",
        "hi",
        role="assistant",
        thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "s"}],
    ),
]

MESSAGES = [
    *_plain(
        temperature=0,
        top_p=0.5,
        top_k=5,
        stop_sequences=["x"],
        stream=True,
        system="s",
        metadata={"user_id": "u"},
        service_tier="auto",
        cache_control=MARK,
        container="c",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        mcp_servers=[{"type": "url", "url": "https://a.example", "name": "n"}],
        inference_geo="eu",
        speed="fast",
        future_field=1,
    ),
    Probe(name="max_tokens", fields={"max_tokens": 7}),
    Probe(name="thread (create)", fields={"thread": {"type": "create"}}),
    Probe(name="thread (continue)", fields={"thread": {"type": "continue", "previous_message_id": "msg_1"}}),
    Probe(name="thinking (budget)", fields={"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    Probe(name="thinking (adaptive)", fields={"thinking": {"type": "adaptive"}}),
    Probe(name="thinking (disabled)", fields={"thinking": {"type": "disabled"}}),
    Probe(name="output_config.effort", fields={"output_config": {"effort": "high"}}),
    Probe(name="output_config.format", fields={"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    Probe(name="tools", fields={"tools": [CUSTOM]}),
    Probe(name="tools.strict", fields={"tools": [{**CUSTOM, "strict": True}]}, beside={"tools": [CUSTOM]}),
    Probe(
        name="tools.input_examples", fields={"tools": [{**CUSTOM, "input_examples": [{}]}]}, beside={"tools": [CUSTOM]}
    ),
    Probe(
        name="tools.cache_control", fields={"tools": [{**CUSTOM, "cache_control": MARK}]}, beside={"tools": [CUSTOM]}
    ),
    Probe(name="tools (Anthropic's own)", fields={"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    Probe(name="tool_choice", fields={"tools": [CUSTOM], "tool_choice": {"type": "any"}}, beside={"tools": [CUSTOM]}),
    Probe(
        name="tool_choice.disable_parallel_tool_use",
        fields={"tools": [CUSTOM], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        beside={"tools": [CUSTOM], "tool_choice": {"type": "auto"}},
    ),
    _said(
        "messages.content (image, data)",
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ),
    _said(
        "messages.content (image, address)",
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
    ),
    _said("messages.content (image, file)", {"type": "image", "source": {"type": "file", "file_id": "f"}}),
    _said(
        "messages.content (document, text)",
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"},
    ),
    _said(
        "messages.content (document, PDF)",
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    ),
    _said(
        "messages.content (document, address)",
        {"type": "document", "source": {"type": "url", "url": "https://a.example/b"}},
    ),
    _said(
        "messages.content.citations",
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "x"},
            "citations": {"enabled": True},
        },
    ),
    _said(
        "messages.content (search_result)",
        {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]},
    ),
    _said("messages.content.cache_control", {"type": "text", "text": "hi", "cache_control": MARK}),
    _said("messages.content (tool_result)", RESULT, {"role": "assistant", "content": [USE]}),
    Probe(
        name="messages.content.is_error",
        fields={
            "messages": [
                QUESTION,
                {"role": "assistant", "content": [USE]},
                {"role": "user", "content": [{**RESULT, "is_error": True}]},
            ]
        },
        beside={"messages": [QUESTION, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]},
    ),
    *(
        Probe(
            name=f"messages.content ({block['type']})",
            fields={
                "messages": [
                    QUESTION,
                    {"role": "assistant", "content": [block, {"type": "text", "text": "a"}]},
                    QUESTION,
                ]
            },
            beside={
                "messages": [QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, QUESTION]
            },
        )
        for block in (
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
        )
    ),
    _said("messages (an answer begun)", "It is", role="assistant"),
    _said("messages (system, in between)", "s", role="system"),
]

PROBES: dict[Operation, list[Probe]] = {
    Operation.CHAT: CHAT,
    Operation.MESSAGES: MESSAGES,
    Operation.RESPONSE: RESPONSE,
    Operation.OLLAMA_CHAT: OLLAMA_CHAT,
    Operation.OLLAMA_GENERATE: OLLAMA_GENERATE,
}
SMALLEST: dict[Operation, Fields] = {
    Operation.CHAT: {"model": "m", "messages": [QUESTION]},
    Operation.MESSAGES: {"model": "m", "max_tokens": 4096, "messages": [QUESTION]},
    Operation.RESPONSE: {"model": "m", "input": "hi"},
    Operation.OLLAMA_CHAT: {"model": "m", "messages": [QUESTION], "stream": False},
    Operation.OLLAMA_GENERATE: {"model": "m", "prompt": "hi", "stream": False},
}
