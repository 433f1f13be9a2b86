"""Makes ``docs/translation.md``: what becomes of every field of a client's request, for every kind of provider.

Nothing is written down by hand: each field is sent through the real filter and the real backend, and what would go up
is compared with what goes up without it. ``make references`` writes the page.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from backends._engine_request import CAPABILITIES as ENGINE_CAPABILITIES
from backends._engine_request import CARRIES, generations
from backends.anthropic import Anthropic
from backends.azure_openai import AzureOpenAI
from backends.bedrock import Bedrock
from backends.gemini import Gemini
from backends.ollama import Ollama
from backends.openai_compatible import OpenAICompatible
from gateway.clock import SystemClock
from gateway.errors import UpstreamRefused, UpstreamUnreachable
from gateway.facts import BackendFacts, ModelFacts
from gateway.ports import Surroundings
from gateway.types import Arrival, Call, Candidate, Operation, TraceContext
from gateway.wire.formats import FORMATS
from gateway.wire.hub import TRANSLATED, as_chat
from policies.filter.capable import Capable
from tests.factories import _candidate, _context
from tests.references.probes import PROBES, SMALLEST, Probe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "translation.md"
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
_WORDS = frozenset({"text", "content"})
_OURS = frozenset({"stream", "stream_options"})
"""Where the provider is asked in its own way, and the client gets what it asked for from us."""
_HEAD = """# What becomes of each field

This page is made by `make references`: each field is sent through the real code, and what would go up is compared with
what goes up without it.

* **forwarded**: it goes up under the same name, with the same value.
* **mapped**: it goes up under another name, or in another form.
* **emulated**: the provider has no such field; the prompt says it in words.
* **served here**: the gateway does it itself.
* **not needed**: it does not go up, and no answer depends on it: books, caches, what the model would do anyway, and
  thoughts of earlier turns that their maker has not signed, which only their maker could read.
* **told**: it is a hint that this provider does not know. It stays behind, and the answer's header
  `x-headrace-dropped` names it.
* **refused**: a 400 that names the field, before anybody is asked. A route may let a field go instead
  (`filter: [{use: capable, may_drop: [seed]}]`); the answer's header `x-headrace-dropped` then names it.

Where a provider speaks the client's own format, all of its bytes go up as they came: fields that are not on this page,
too.
"""
_CLIENTS = {
    Operation.CHAT: "OpenAI's chat: `/v1/chat/completions`",
    Operation.MESSAGES: "Anthropic's Messages: `/v1/messages`",
    Operation.RESPONSE: "OpenAI's Responses: `/v1/responses`",
    Operation.OLLAMA_CHAT: "Ollama's chat: `/api/chat`",
    Operation.OLLAMA_GENERATE: "Ollama's generate: `/api/generate`",
}


class Recorder:
    """Connections over which nothing goes: what would, is kept."""

    def __init__(self) -> None:
        self.body = b""

    @asynccontextmanager
    async def post(self, _path: str, body: bytes, **_: Any) -> AsyncIterator[Any]:
        """Keeps the body, and has nobody to send it to."""
        self.body = body
        raise UpstreamUnreachable("nobody is there")
        yield

    async def close(self) -> None:
        """There is nothing open."""


class Sink:
    """Takes no answer, since none comes."""


Sent = Callable[[Call], Any]
"""What goes up for a call, parsed."""


def _over_http(backend: Any) -> tuple[BackendFacts, Sent]:
    recorder = Recorder()
    world = Surroundings(
        clock=SystemClock(),
        secret=lambda _: "k",
        connect=lambda _: recorder,
        behind_proxy=lambda _: False,
        model_dir=Path(),
    )
    asyncio.run(backend.start("b", world))

    def sent(call: Call) -> Any:
        try:
            asyncio.run(backend.send(call, Sink()))
        except UpstreamUnreachable:
            return json.loads(recorder.body)
        raise AssertionError("somebody answered")

    return backend.facts(), sent


def _engine(*, thinks: bool) -> tuple[BackendFacts, Sent]:
    """The embedded engine, asked for nothing: what would be its request is what goes up."""
    model = ModelFacts(capabilities=ENGINE_CAPABILITIES, carries=CARRIES[thinks])
    operations = frozenset(Operation)
    facts = BackendFacts(models={"m": model}, operations=operations, translates=TRANSLATED)

    def sent(call: Call) -> Any:
        request, _ = as_chat(call, Sink())
        return json.loads(msgspec.json.encode(generations(request)))

    return facts, sent


def providers() -> Mapping[str, tuple[BackendFacts, Sent]]:
    """Every kind of provider, with the name that its column has."""
    return {
        "`openai_compatible`": _over_http(OpenAICompatible(base_url="http://a.example/v1", models=("m",))),
        "`anthropic`": _over_http(Anthropic(base_url="http://a.example/v1", models=("m",))),
        "`azure_openai`": _over_http(AzureOpenAI(base_url="http://a.example/openai", models=("m",))),
        "`bedrock`": _over_http(Bedrock(region="eu-central-1", api_key_env="K", models=("m",))),
        "`gemini`": _over_http(Gemini(base_url="http://a.example/v1", models=("m",))),
        "`ollama`": _over_http(Ollama(base_url="http://a.example", models=("m",), refresh_s=0)),
        "`embedded`": _engine(thinks=False),
        "`embedded`, thinking": _engine(thinks=True),
    }


def fate(operation: Operation, probe: Probe, facts: BackendFacts, sent: Sent) -> str:
    """What becomes of a field, in one of the page's words."""
    call = _call(operation, {**SMALLEST[operation], **probe.beside, **probe.fields})
    candidate = _at(facts)
    ctx, capable = _context(call.request), Capable()
    if capable.exclude(ctx, candidate) is not None:
        return "refused"
    if capable.drops(ctx, candidate):
        return "told"
    try:
        after = sent(call)
    except UpstreamRefused:
        return "refused"
    before = sent(_call(operation, {**SMALLEST[operation], **probe.beside}))
    return _compared(operation, probe, before, after, facts)


def _compared(operation: Operation, probe: Probe, before: Any, after: Any, facts: BackendFacts) -> str:
    if before == after:
        return "served here" if probe.name in _OURS else "not needed"
    same = isinstance(after, dict) and all(after.get(name) == value for name, value in probe.fields.items())
    if same or (operation in facts.operations - facts.translates and operation in FORMATS and same):
        return "forwarded"
    new = _leaves(after) - _leaves(before)
    is_field = "content (" not in probe.name and not probe.name.startswith(("messages (", "system"))
    return "emulated" if is_field and new and {path[-1] for path, _ in new} <= _WORDS else "mapped"


def _leaves(value: Any, path: tuple[str, ...] = ()) -> set[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        return {leaf for name, inner in value.items() for leaf in _leaves(inner, (*path, name))}
    if isinstance(value, list):
        return {leaf for inner in value for leaf in _leaves(inner, path)}
    return {(path, json.dumps(value))}


def _at(facts: BackendFacts) -> Candidate:
    model = facts.models["m"]
    return _candidate(
        operations=facts.operations,
        translates=facts.translates,
        capabilities=model.capabilities,
        carries=model.carries,
    )


def _call(operation: Operation, body: Mapping[str, Any]) -> Call:
    arrival = Arrival(id="r", operation=operation, tenant="t", received_s=0.0, received_unix_s=0.0, trace=TRACE)
    return Call(request=FORMATS[operation].read(arrival, msgspec.json.encode(body)), model="m", trace=TRACE)


def page() -> str:
    """The whole page."""
    known = providers()
    lines = [_HEAD]
    for operation, title in _CLIENTS.items():
        lines += [f"## {title}", "", f"| field | {' | '.join(known)} |", f"|---|{'---|' * len(known)}"]
        for probe in sorted(PROBES[operation], key=lambda it: it.name):
            fates = [fate(operation, probe, *provider) for provider in known.values()]
            lines.append(f"| `{probe.name}` | {' | '.join(fates)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE.relative_to(Path.cwd())}\n")
