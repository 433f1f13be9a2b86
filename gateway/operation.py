"""What clients ask for."""

from enum import StrEnum


class Operation(StrEnum):
    """What the client asks for, by the endpoint it called: one value per wire format of the client."""

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDING = "embedding"
    MESSAGES = "messages"
    COUNT_TOKENS = "count_tokens"
    RESPONSE = "response"
    MODERATION = "moderation"
    TRANSCRIPTION = "transcription"
    TRANSLATION = "audio_translation"
    SPEECH = "speech"
    IMAGE = "image"
    IMAGE_EDIT = "image_edit"
    IMAGE_VARIATION = "image_variation"
    RERANK = "rerank"
    OLLAMA_CHAT = "ollama_chat"
    OLLAMA_GENERATE = "ollama_generate"
    OLLAMA_EMBED = "ollama_embed"
    OLLAMA_EMBEDDINGS = "ollama_embeddings"
    __hash__ = str.__hash__  # an enum's own is a function in Python, which every look-up by it would call


OLLAMA = frozenset(
    {Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE, Operation.OLLAMA_EMBED, Operation.OLLAMA_EMBEDDINGS}
)
"""What Ollama's clients call, whose errors and streams have a form of their own."""

EMBEDDINGS = frozenset({Operation.EMBEDDING, Operation.OLLAMA_EMBED, Operation.OLLAMA_EMBEDDINGS})
"""What is answered with vectors."""
