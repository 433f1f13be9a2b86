"""How Ollama's clients are known, and what they want to hear first."""

from collections.abc import Mapping

RUNNING = "Ollama is running"
"""What Ollama says at ``/``, by which some clients know it."""


def speaks_ollama(path: str) -> bool:
    """Whether who asks for a path expects Ollama's errors."""
    return path.startswith("/api/")


def greets(headers: Mapping[str, str]) -> bool:
    """Whether who asks is one of Ollama's own clients, which want to hear that Ollama runs."""
    return headers.get("user-agent", "").startswith("ollama")
