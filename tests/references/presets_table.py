"""Makes ``docs/presets.md``: what is known of each provider and server that speaks OpenAI's API.

Nothing is written down by hand: it is ``backends/presets.yaml``, in words. ``make references`` writes the page.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from backends._chat_dialect import ChatDialect
from backends._presets import Preset, presets
from gateway.request_fields import NEVER_MATTERS
from gateway.types import Operation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "presets.md"
_HEAD = """# Presets

What a policy file gets with `{use: openai_compatible, preset: groq}`. This page is made by `make references` from
`backends/presets.yaml`, which names its sources. A backend's own parameters go before it; a request's fields that are
not on this page go up as they came, byte for byte.

* **stays behind**: the provider answers this field with an error, and no answer depends on it.
* **refused**: so does it, and an answer may depend on it: a 400 that names the field, before anybody is asked, unless
  another backend of the route can take it. `may_drop` of the `capable` filter lets it go; `x-headrace-dropped` says so.
* **cannot**: requests that need this go to other backends of their route, or are refused.
"""
_THOUGHTS = {
    "none": "past thoughts stay behind",
    "reasoning": "past thoughts (`reasoning_content`) go up as `reasoning`",
    "reasoning_details": "past thoughts go up as `reasoning_details`, with their seals",
    "parts": "past thoughts go up among the parts of the content",
}
_HABITS = (
    ("thinking_switch", True, '`"reasoning_effort": "none"` goes up as `"thinking": {"type": "disabled"}`'),
    ("developer_role", False, "the role `developer` becomes `system`"),
    ("names", False, "`name` in messages stands at the beginning of their words"),
    ("parts", True, "answers in parts come back as text, and thoughts as `reasoning_content`"),
    ("custom_tools", False, "custom tools are told as functions; a grammar of one is refused"),
)


def _known(name: str, preset: Preset) -> Iterator[str]:
    spoken = ", ".join(f"`{operation.value}`" for operation in Operation if operation in preset.operations)
    key = f"key in `{preset.api_key_env}`" if preset.api_key_env else "no key"
    yield f"`{preset.base_url}`, {key}"
    yield f"speaks {spoken}"
    if preset.lacks:
        yield f"cannot: {_quoted(preset.lacks)}"
    if preset.can:
        yield f"can: {_quoted(preset.can)}"
    if Operation.CHAT in preset.operations:
        yield from _said(preset.dialect)
    if preset.gauges:
        yield f"`load_every_s` reads {_quoted(preset.gauges)}"
    if preset.states_cost:
        yield "its answers say what they cost, which is believed before a published price"
    if preset.price_list:
        yield f"published prices: `{preset.price_list}`"
    if name in {"vllm", "sglang"}:
        flag = {"vllm": "--enable-prompt-tokens-details", "sglang": "--enable-cache-report"}[name]
        yield f"tells cached tokens when it is started with `{flag}`"


def _said(dialect: ChatDialect) -> Iterator[str]:
    """How its chat differs."""
    if dialect.limit_field != "max_tokens":
        yield f"a limit of translated requests is called `{dialect.limit_field}`"
    for given, other in sorted(dialect.renames.items()):
        yield f"`{given}` is called `{other}`"
    if behind := dialect.refuses & NEVER_MATTERS:
        yield f"stays behind: {_quoted(behind)}"
    if refused := dialect.refuses - NEVER_MATTERS:
        yield f"refused: {_quoted(refused)}"
    if dialect.past_reasoning in _THOUGHTS:
        yield _THOUGHTS[dialect.past_reasoning]
    yield from (words for name, value, words in _HABITS if getattr(dialect, name) is value)
    if dialect.call_id_chars:
        yield f"ids of calls that are not {dialect.call_id_chars} letters and digits go up as a digest of that length"
    if dialect.message_fields:
        yield f"messages have {_quoted(dialect.message_fields)}; what is empty beside that stays behind"


def _quoted(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for name, preset in sorted(presets().items()):
        if preset.use == "openai_compatible":
            lines += [f"## {name}", "", *(f"* {fact}" for fact in _known(name, preset)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE.relative_to(Path.cwd())}\n")
