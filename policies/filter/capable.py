"""Out: a candidate that cannot do what the request asks for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gateway.errors import ClientError, Unsupported
from gateway.request_fields import NEVER_MATTERS, TOOL_GRAMMAR, field_that_needs, names_path, says_nothing
from gateway.types import Candidate, ChatRequest, Context, Objection, Operation

_NONE: frozenset[str] = frozenset()
_GRAMMAR = "tool_grammar"
"""The one capability that a route may do without: its grammar is then told in words."""


@dataclass(frozen=True, kw_only=True)
class Capable:
    """Out: a candidate that cannot do what the request asks for.

    Three questions, in this order: does it serve this kind of request at all; can it carry every field that the client
    set, which names what to leave out; has it every capability that the answer needs (``tools``, ``vision``...). A
    candidate that declares no fields or no capabilities is taken to have them all.

    A field is never dropped in silence if that could change the answer. Fields that cannot (``user``, ``metadata``,
    ``store``...) and fields at the value that leaving them out means (``"presence_penalty": 0``, ``null``) are no
    reason to refuse.

    Requests that have to be translated are judged by what is left of them then, and refused by the client's own names.
    What is lost by this route's leave, hints that a backend does not understand (``output_config.effort`` for a model
    that does not think), and offers that it cannot take (a tool such as ``web_search``, which only its provider runs)
    are named in the answer's header ``x-headrace-dropped``.

    OpenAI's custom tools, whose input is free text, are told as functions where a provider has none. A grammar of one
    cannot be held then, and is refused; ``may_drop: [tools.custom.format, tools.format]``, by its names in chats and in
    Responses, has it told in words.

    Attributes:
        may_drop: further fields that this route may lose on the way to a backend that does not know them; paths
            without the places in lists, such as ``tools.input_examples``.

    Example::

        filter:
          - {use: capable, may_drop: [seed, parallel_tool_calls]}
    """

    may_drop: tuple[str, ...] = ()

    refusal: ClassVar[type[ClientError] | None] = Unsupported

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:
        """What it cannot do, by name (takes no `logit_bias`), or ``None``."""
        request = ctx.request
        if request.arrival.operation not in candidate.operations:
            return Objection(f"does not serve `{request.arrival.operation}`", param="model")
        lost = _lost(request, candidate)
        if lost and (lost := [path for path in lost if not names_path(self.may_drop, path)]):
            return Objection(f"takes no {_quoted(lost)}", param=min(lost))
        missing = _missing(request, candidate) if request.needs else _NONE
        if not missing:
            return None
        grammar = TOOL_GRAMMAR.get(request.arrival.operation, "")
        if _GRAMMAR in missing and names_path(self.may_drop, grammar):
            missing = missing - {_GRAMMAR}
        if missing == {_GRAMMAR}:
            return Objection(f"cannot hold `{grammar}`", param=grammar)
        if missing:
            return Objection(f"has no {_quoted(missing)}", param=field_that_needs(missing, request.raw))
        return None

    def drops(self, ctx: Context, candidate: Candidate) -> tuple[str, ...]:
        """What the request loses on its way to a candidate that ``exclude`` has let pass, by the client's names."""
        request = ctx.request
        if not self.may_drop and request.translation is None:
            return ()
        lost = {*_lost(request, candidate), *_unheard(request, candidate)}
        if _GRAMMAR in _missing(request, candidate):
            lost.add(TOOL_GRAMMAR[request.arrival.operation])
        return tuple(sorted(lost))


def _missing(request: ChatRequest, candidate: Candidate) -> frozenset[str]:
    """The capabilities that the answer needs and the candidate does not have."""
    capabilities = candidate.capabilities
    return request.needs - capabilities if capabilities is not None else _NONE


def _lost(request: ChatRequest, candidate: Candidate) -> list[str]:
    """What has no place on the way there and could change the answer, by its path in the client's body."""
    operation, carries = request.arrival.operation, candidate.carries
    if request.translation is None:
        if carries is None and not candidate.refuses:
            return []
        fields = _unknown(request.raw, candidate, operation)
        return [field for field in fields if not says_nothing(field, request.raw[field])]
    if operation not in candidate.translates:
        return []  # it speaks the client's format: the bytes go on as they came
    translation = request.translation()
    if translation.into not in candidate.operations:  # it has chats, say, and this is no chat
        return [translation.origins.get("prompt", "prompt")]
    unknown = _unknown(translation.fields, candidate, translation.into) - translation.hints
    wanted = [field for field in unknown if not says_nothing(field, translation.fields[field])]
    return [*translation.lost, *(translation.origins.get(field, field) for field in wanted)]


def _unheard(request: ChatRequest, candidate: Candidate) -> list[str]:
    """Hints that a candidate does not understand, and offers that it cannot take: no reason to refuse, but told."""
    if request.translation is None or request.arrival.operation not in candidate.translates:
        return []
    translation = request.translation()
    unknown = _unknown(translation.fields, candidate, translation.into) & translation.hints
    return [*translation.offers, *(translation.origins.get(field, field) for field in unknown)]


def _unknown(fields: Mapping[str, Any], candidate: Candidate, shape: Operation) -> set[str]:
    """Fields that a candidate does not know, or that it refuses in a chat, and that could change an answer."""
    if candidate.carries is not None:
        return fields.keys() - candidate.carries - NEVER_MATTERS
    return fields.keys() & candidate.refuses - NEVER_MATTERS if shape is Operation.CHAT else set()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
