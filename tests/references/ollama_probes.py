"""One request for each field that Ollama's ``/api/chat`` and ``/api/generate`` document."""

from typing import Any

from tests.references.probe import Fields, Probe

_QUESTION = {"role": "user", "content": "hi"}
_PNG = "iVBORw0KGgo="
_SCHEMA: Fields = {"type": "object", "properties": {"a": {"type": "string"}}}
_TOOL: Fields = {"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA}}
_CALL: Fields = {"function": {"name": "f", "arguments": {"a": "b"}}}
_OPTIONS: Fields = {
    "num_predict": 7,
    "temperature": 0,
    "top_k": 5,
    "top_p": 0.5,
    "min_p": 0.1,
    "seed": 7,
    "stop": ["x"],
    "repeat_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "typical_p": 0.5,
    "repeat_last_n": 5,
    "num_ctx": 8192,
    "num_gpu": 1,
    "num_keep": 5,
    "num_batch": 2,
    "future_option": 1,
}


def _turn(name: str, **turn: Any) -> Probe:
    """A turn in between, and the same without what it is about."""
    plain = {"role": turn.get("role", "user"), "content": turn.get("content", "hi")}
    return Probe(
        name=name,
        fields={"messages": [_QUESTION, {**plain, **turn}, _QUESTION]},
        beside={"messages": [_QUESTION, plain, _QUESTION]},
    )


def _of_both() -> list[Probe]:
    plain: Fields = {
        "stream": True,
        "keep_alive": "10m",
        "truncate": True,
        "shift": True,
        "logprobs": True,
        "future_field": 1,
    }
    named: dict[str, Fields] = {
        "format (json)": {"format": "json"},
        "format (schema)": {"format": _SCHEMA},
        "think (yes)": {"think": True},
        "think (no)": {"think": False},
        "think (level)": {"think": "high"},
    }
    return [
        *(Probe(name=name, fields={name: value}) for name, value in plain.items()),
        *(Probe(name=f"options.{name}", fields={"options": {name: value}}) for name, value in _OPTIONS.items()),
        *(Probe(name=name, fields=fields) for name, fields in named.items()),
        Probe(name="top_logprobs", fields={"logprobs": True, "top_logprobs": 2}, beside={"logprobs": True}),
    ]


OLLAMA_CHAT = [
    *_of_both(),
    Probe(name="tools", fields={"tools": [_TOOL]}),
    _turn("messages.images", images=[_PNG]),
    _turn("messages.thinking", role="assistant", content="a", thinking="hm"),
    Probe(
        name="messages.tool_calls and their results",
        fields={
            "messages": [
                _QUESTION,
                {"role": "assistant", "content": "", "tool_calls": [_CALL]},
                {"role": "tool", "content": "r", "tool_name": "f"},
            ]
        },
    ),
    Probe(
        name="messages (an answer begun)",
        fields={"messages": [_QUESTION, {"role": "assistant", "content": "It is"}]},
    ),
    Probe(name="messages (system)", fields={"messages": [{"role": "system", "content": "s"}, _QUESTION]}),
]

OLLAMA_GENERATE = [
    *_of_both(),
    *(
        Probe(name=name, fields={name: value})
        for name, value in {"system": "s", "suffix": "x", "raw": True, "template": "t", "context": [1]}.items()
    ),
    Probe(name="images", fields={"images": [_PNG]}),
]
