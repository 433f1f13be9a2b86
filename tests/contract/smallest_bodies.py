"""The smallest body of each endpoint."""

from typing import Any

from gateway.types import Operation

_SAID = [{"role": "user", "content": "hi"}]
BODIES: dict[Operation, dict[str, Any]] = {
    Operation.CHAT: {"model": "m", "messages": _SAID},
    Operation.COMPLETION: {"model": "m", "prompt": "hi"},
    Operation.EMBEDDING: {"model": "m", "input": "hi"},
    Operation.MESSAGES: {"model": "m", "max_tokens": 9, "messages": _SAID},
    Operation.COUNT_TOKENS: {"model": "m", "messages": _SAID},
    Operation.RESPONSE: {"model": "m", "input": "hi"},
    Operation.MODERATION: {"model": "m", "input": "hi"},
    Operation.TRANSCRIPTION: {"model": "m"},
    Operation.TRANSLATION: {"model": "m"},
    Operation.SPEECH: {"model": "m", "input": "hi"},
    Operation.IMAGE: {"model": "m", "prompt": "hi"},
    Operation.IMAGE_EDIT: {"model": "m", "prompt": "hi"},
    Operation.IMAGE_VARIATION: {"model": "m"},
    Operation.RERANK: {"model": "m", "query": "hi", "documents": ["a", "b"]},
    Operation.OLLAMA_CHAT: {"model": "m", "messages": _SAID},
    Operation.OLLAMA_GENERATE: {"model": "m", "prompt": "hi"},
    Operation.OLLAMA_EMBED: {"model": "m", "input": "hi"},
    Operation.OLLAMA_EMBEDDINGS: {"model": "m", "prompt": "hi"},
}
