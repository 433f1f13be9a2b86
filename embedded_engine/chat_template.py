"""Renders a conversation with the template in the model file.

Templates are programs that somebody put into a model file: they run in Jinja's immutable sandbox, with the variables
and the two functions that published templates expect.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from embedded_engine.errors import InvalidMessages, NoChatTemplate

__all__ = ["ChatTemplate"]


class ChatTemplate:
    """One model's template.

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
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise NoChatTemplate(f"the model's chat template is broken: {error}") from error
        self._variables = {"bos_token": bos_text, "eos_token": eos_text, "tools": None, "documents": None}

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as one text that ends where the assistant's answer begins.

        Raises:
            InvalidMessages: The template refuses the conversation, or fails on it.
        """
        try:
            return self._template.render(messages=messages, add_generation_prompt=True, **self._variables)
        except _Refused as error:
            raise InvalidMessages(f"the model's chat template says: {error}", param="messages") from error
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            message = f"the model's chat template cannot render this conversation: {error}"
            raise InvalidMessages(message, param="messages") from error


class _Refused(Exception):
    """A template's own `raise_exception`, which is how it says that it wants the roles in another order."""


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern)
