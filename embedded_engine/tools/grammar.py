"""The grammar that holds a model to its family's way of writing calls, in llguidance's dialect of Lark.

Control tokens stand in it by their number, everything else as text; arguments are JSON Schemas, by name.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from embedded_engine.messages import GrammarText
from embedded_engine.tools.families import Family
from embedded_engine.turns import Tool

__all__ = ["MAX_CALLS", "call_grammar"]

MAX_CALLS = 32
"""In one answer where a grammar holds the model: small ones would call for ever."""


def call_grammar(
    family: Family,
    tools: Sequence[Tool],
    *,
    control: Mapping[str, int],
    required: bool,
    parallel: bool,
    answer: str | None = None,
) -> GrammarText | None:
    """The grammar of an answer that calls some of `tools`; None where the family's calls cannot be told in time.

    Args:
        family: How this model writes calls.
        tools: What may be called.
        control: The numbers of the family's marks that are control tokens.
        required: Whether something must be called; otherwise it may answer in words first, or only.
        parallel: Whether several may be called.
        answer: Where something need not be called: the JSON Schema of an answer that calls nothing.
    """
    if not required and answer is None and (family.text_name or not family.first_mark):
        return None
    writer = _Writer(control)
    begin, calls = _calls(family, writer, parallel=parallel)
    lines = [f"body: {' | '.join(_body(family, tool.name, at, writer) for at, tool in enumerate(tools))}"]
    schemas = [(f"arguments_{at}", tool.parameters) for at, tool in enumerate(tools)]
    if required:
        lines.append(f"start: {begin} {calls}")
    elif answer is not None:
        lines.append(f"start: @answer | {begin} {calls}")
        schemas.append(("answer", answer))
    else:
        after_mark = writer.text((*family.opening, *family.start), skip=family.first_mark)
        lines += [rf"start: TEXT | head {after_mark} {calls}", _head(family.first_mark, control), r"TEXT: /(.|\n)*/"]
    return GrammarText(
        kind="lark",
        text="\n".join(lines),
        schemas=tuple(schemas),
        strict=any(tool.strict for tool in tools),
        param="tools",
    )


def _calls(family: Family, writer: "_Writer", *, parallel: bool) -> tuple[str, str]:
    """How calls begin, which the prompt has done already or the model does, and all that follows."""
    opening, start = writer.text(family.opening), writer.text(family.start)
    begin = f"({start})?" if family.text_name else f"{opening} {start}"
    body = f"body {writer.text(family.end)}"
    more = f"({writer.text((family.separator,))} {start} {body}){{0,{MAX_CALLS - 1}}}" if parallel else ""
    return begin, f"{body} {more} {writer.text(family.closing)}"


class _Writer:
    """Writes marks as Lark has them."""

    def __init__(self, control: Mapping[str, int]) -> None:
        self._control = control

    def text(self, marks: Sequence[str], *, skip: str = "") -> str:
        """The marks one after the other; without the first one's own text where that is `skip`."""
        return " ".join(part for at, mark in enumerate(marks) for part in self._parts(mark, skip if at == 0 else ""))

    def _parts(self, mark: str, skip: str) -> Iterator[str]:
        core = mark.strip()
        number = self._control.get(core)
        if number is None:
            text = mark.lstrip().removeprefix(skip) if skip else mark
            if text:
                yield json.dumps(text, ensure_ascii=False)
            return
        before, after = mark.split(core)
        if before:
            yield json.dumps(before)
        if core != skip:
            yield f"<[{number}]>"
        if after:
            yield json.dumps(after)


def _body(family: Family, name: str, at: int, writer: _Writer) -> str:
    if family.body == "named":
        return f"{json.dumps(name)} {writer.text(family.between)} @arguments_{at}"
    before = f'{{"name": {json.dumps(name)}, "{family.arguments_key}": '
    return f'{json.dumps(before)} @arguments_{at} "}}"'


def _head(mark: str, control: Mapping[str, int]) -> str:
    """Free text up to the mark. A control token ends it by itself; a mark of text is where it is least long."""
    if mark in control:
        return f"head: TEXT <[{control[mark]}]>"
    return rf"head[lazy]: /(.|\n)*/ {json.dumps(mark, ensure_ascii=False)}"
