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
    __hash__ = str.__hash__  # an enum's own is a function in Python, which every look-up by it would call
