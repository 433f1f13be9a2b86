"""Makes ``docs/clients.md``: which clients were driven through a gateway, what is set in each, and what was tried.

The rows are what the scripts in ``tests/clients/`` say of themselves, and what they hold their clients to.
``make references`` writes the page.
"""

import importlib
import sys
from pathlib import Path

from tests.clients.__main__ import SCRIPTS
from tests.clients.trials import Client

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
_HEAD = """# Clients

An app, an agent or a coding tool changes its base URL and notices nothing. This page is made by `make references` from
the scripts in `tests/clients/`; each drives the real client through a gateway, over an upstream that speaks only
OpenAI's chat (for sound, pictures and rerank: over the made-up backend), and holds it to what the client itself says in
the end.

| client | installed as | what to set | what was tried |
| --- | --- | --- | --- |
"""
_TAIL = """
*Whole* and *streamed* are answers in words, *tools* is a call with its result and the answer after it, *structured* is
an object out of a schema, *vectors* are embeddings, *documents* are ranked ones. Any key does while the policy file has
no tenants; most clients want one that is not empty. Names of models are yours: whatever the policy file's routes match.

## Run them

`make clients` runs each script whose client is installed, and says which are not. Clients live in environments of their
own:

* `CLIENTS_PYTHON`: an interpreter of a virtual environment that has the Python packages.
* `CLIENTS_NODE`: a folder whose `node_modules` has the packages of npm.
* `CLAUDE`, `CODEX`, `OPENCODE`, `LLMOCK`, `LITELLM`: the commands, where they are not on the `PATH`.

What these clients send is also tested without them: requests in their shapes are sent over providers of two formats in
each run of the suite.

## Upstreams of others

Servers that were not written here are asked as upstreams, two that imitate providers and two that people serve with:

* aimock (npm `@copilotkit/aimock`): OpenAI's chat and Responses, Azure OpenAI by both of its addresses, Anthropic,
  Gemini, Bedrock's Converse (whose signatures it does not check) and Ollama, each through the backend that speaks it,
  in the formats of four clients. Then three that speak chat fail at random, with a quiet one beside them, and three of
  Bedrock likewise: every client hears a whole answer. Its speech, transcripts, pictures, moderations and rerank are
  asked by OpenAI's SDK.
* LLMock (`llmock`): limits, outages, wrong requests, streams that break, end early or hold an event that is cut short.
  It judges whoever asked: whether `Retry-After` was kept, whether what cannot succeed was asked again, whether half an
  answer was taken for a whole one. Its verdict on a gateway with OpenAI's SDK before it: no errors, no warnings.
* llama.cpp's server (in `xllamacpp`), with the default model and in each run of the suite: chats, Messages, Responses,
  vectors, counts and cached tokens, whole and streamed, by OpenAI's and Anthropic's SDKs.
* LiteLLM's proxy (`litellm[proxy]`, which `make peers ARGS=litellm` installs; `LITELLM` names the command elsewhere),
  behind a gateway and in front of one: both SDKs, all three formats, whole, streamed, with tools.

vLLM is not among them. Its own wheel needs a GPU; the one for CPUs that PyPI has is somebody else's build, and wants a
build of PyTorch that PyPI does not have. What it sends and reads is tried with exchanges made after its documentation.
"""


def clients() -> list[Client]:
    """All clients of all scripts, by name."""
    found: list[Client] = []
    for name in SCRIPTS:
        script = importlib.import_module(f"tests.clients.{name}")
        found += getattr(script, "CLIENTS", ())
        found += [script.CLIENT] if hasattr(script, "CLIENT") else []
    return sorted(found, key=lambda client: client.name.lower())


def page() -> str:
    """The page's text."""
    rows = (f"| {row.name} | `{row.package}` | {row.sets} | {_tried(row)} |\n" for row in clients())
    return _HEAD + "".join(rows) + _TAIL


def _tried(client: Client) -> str:
    return "; ".join(f"{path}: {', '.join(whats)}" for path, whats in client.tried.items())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
