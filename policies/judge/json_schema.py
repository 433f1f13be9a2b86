"""Passes an answer whose text is JSON that fits a schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.judgement import Answer, Choice, Judgement, cannot_say, failed, passed
from gateway.types import ChatRequest
from policies.judge._asked import asked
from policies.judge._choices import each_choice
from policies.judge._json_text import parse
from policies.judge._schemas import Schemas

_ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class JsonSchema:
    """Passes an answer whose text is JSON that fits a schema: the request's own, or the policy file's.

    Without ``schema`` it is that of the request's ``response_format``; with ``json_object`` there any object fits, and
    where the request asks for neither it cannot say. Drafts 4 to 2020-12. A schema that refers to another document, or
    whose pattern needs a backtracking engine (look-around, back-references), is one of which it cannot say. Needs
    ``headrace[judges]``.

    Attributes:
        schema: a JSON Schema, as YAML.
        fenced: whether the JSON may stand in a Markdown fence.

    Example::

        judge:
          - {use: json_schema, schema: {type: object, required: [city], properties: {city: {type: string}}}}
    """

    schema: Mapping[str, Any] | None = None
    fenced: bool = False
    _schemas: Schemas = field(init=False, repr=False, compare=False, default_factory=Schemas)

    def judge(self, request: ChatRequest, answer: Answer) -> Judgement:
        """See ``Judge.judge``."""
        schema = _schema_of(request) if self.schema is None else self.schema
        if schema is None:
            return cannot_say("the request asks for no schema")
        return each_choice(answer, lambda choice: self._look(choice, schema))

    def _look(self, choice: Choice, schema: Any) -> Judgement:
        if choice.tool_calls and not choice.text.strip():
            return cannot_say("tools are called, there is no text")
        parsed = parse(choice.text, fenced=self.fenced)
        if parsed.fault:
            return failed(parsed.fault)
        fits, why = self._schemas.fault(schema, parsed.value)
        if fits is None:
            return cannot_say(why)
        return passed() if fits else failed(why)


def _schema_of(request: ChatRequest) -> Any:
    wanted = asked(request, "response_format")
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_object":
        return _ANY_OBJECT
    named = wanted.get("json_schema")
    return named.get("schema") if isinstance(named, dict) else None
