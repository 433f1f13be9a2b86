"""Renders a conversation with the template in the model file.

Templates are programs that somebody put into a model file: they run in Jinja's immutable sandbox, with the variables,
the filter and the two functions that published templates expect.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, meta, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from embedded_engine.errors import InvalidMessages, NoChatTemplate

__all__ = ["ChatTemplate", "TemplateTypeError"]

_AFTER_JSON = "_after_json"


class TemplateTypeError(InvalidMessages):
    """The template expected a value of another type, such as a text for an object."""


class ChatTemplate:
    """One model's template.

    Attributes:
        source: Its text.

    Raises:
        NoChatTemplate: The template is no Jinja.
    """

    def __init__(self, source: str, *, bos_text: str, eos_text: str) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,  # published templates are written for these two
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols"],
            autoescape=False,
        )
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _strftime_now
        environment.filters["tojson"] = _to_json
        self.source = source
        try:
            self._template = environment.from_string(source)
            self._wanted = meta.find_undeclared_variables(environment.parse(source))
        except TemplateError as error:
            raise NoChatTemplate(f"the model's chat template is broken: {error}") from error
        self._variables = {"bos_token": bos_text, "eos_token": eos_text, "tools": None, "documents": None}

    def wants(self, variable: str) -> bool:
        """Whether it looks at a variable of that name."""
        return variable in self._wanted

    def render(self, variables: Mapping[str, Any], *, after_json: Callable[[str], str] | None = None) -> str:
        """The conversation as one text that ends where the assistant's answer begins.

        Args:
            variables: `messages` and whatever else the template is given.
            after_json: What happens to each JSON text that the template makes.

        Raises:
            InvalidMessages: The template refuses the conversation, or fails on it.
        """
        given = {**self._variables, "add_generation_prompt": True, **variables, _AFTER_JSON: after_json}
        try:
            return self._template.render(given)
        except _Refused as error:
            raise InvalidMessages(f"the model's chat template says: {error}", param="messages") from error
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            message = f"the model's chat template cannot render this conversation: {error}"
            kind = TemplateTypeError if isinstance(error, TypeError) else InvalidMessages
            raise kind(message, param="messages") from error


class _Refused(Exception):
    """A template's own `raise_exception`, which is how it says that it wants the roles in another order."""


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern)


@pass_context
def _to_json(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # the signature that templates know
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002  # likewise
) -> str:
    """JSON as `transformers` renders it: Jinja's own filter escapes for HTML."""
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    after_json = context.get(_AFTER_JSON)
    return text if after_json is None else str(after_json(text))
