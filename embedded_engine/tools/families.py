"""How the families of models write tool calls, as data; the first whose evidence is in a chat template is the model's.

The formats are those of the models' own published chat templates. Marks have their white space as it is written where
calls are enforced; where they are read it does not matter.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["DEFAULT", "FAMILIES", "PLAIN", "Family", "family_of", "stripped"]

Marks = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """`opening`, then for each call `start`, the call and `end`, `separator` between two, and `closing` at the end.

    Attributes:
        name: What it is called here.
        evidence: Texts that all stand in the family's templates.
        body: A call is an "object" with its name and arguments, a name with an object after `between` ("named"), or
            Python: `[name(argument=value)]`.
        opening: Marks before the first call. Without these and `start`, only a whole answer can be calls.
        start: Marks before each call.
        between: Marks between name and arguments.
        end: Marks after each call.
        separator: Between two calls, as it is written where it is enforced.
        closing: Marks after the last call.
        arguments_key: What an object calls its arguments.
        text_name: What the family "calls" to say something; the prompt then ends inside `start`.
        id_characters: Letters and digits of a call's id, where templates insist on their number.
    """

    name: str
    evidence: tuple[str, ...]
    body: Literal["object", "named", "python"]
    opening: Marks = ()
    start: Marks = ()
    between: Marks = ()
    end: Marks = ()
    separator: str = ""
    closing: Marks = ()
    arguments_key: str = "arguments"
    text_name: str = ""
    id_characters: int | None = None

    @property
    def first_mark(self) -> str:
        """The mark that shows that calls begin; empty where there is none."""
        return next(iter((*self.opening, *self.start)), "").strip()

    @property
    def marks(self) -> frozenset[str]:
        """All marks, which may be control tokens of the model."""
        return frozenset(stripped((*self.opening, *self.start, *self.between, *self.end, *self.closing)))


# DeepSeek's control tokens, whose bars are full-width ones.
_CALLS, _CALLS_END = "<\uff5ctool▁calls▁begin\uff5c>", "<\uff5ctool▁calls▁end\uff5c>"
_CALL, _CALL_END = "<\uff5ctool▁call▁begin\uff5c>", "<\uff5ctool▁call▁end\uff5c>"
_SEP = "<\uff5ctool▁sep\uff5c>"

DEFAULT = Family(
    name="hermes",  # Hermes 2 Pro and 3, Qwen 2.5 and 3, SmolLM3, and whoever is told so by our own system block
    evidence=("<tool_call>", "</tool_call>"),
    body="object",
    start=("<tool_call>\n",),
    end=("\n</tool_call>",),
    separator="\n",
)

FAMILIES = (
    Family(name="functionary_v3.2", evidence=(">>>all",), body="named", start=(">>>",), between=("\n",),
           text_name="all"),
    Family(
        name="functionary_v3.1", evidence=("<function=", "</function>"), body="named", start=("<function=",),
        between=(">",), end=("</function>",),
    ),
    Family(
        name="mistral_named", evidence=("[TOOL_CALLS]", "[ARGS]"), body="named", start=("[TOOL_CALLS]",),
        between=("[ARGS]",), id_characters=9,
    ),
    Family(
        name="mistral", evidence=("[TOOL_CALLS]",), body="object", opening=("[TOOL_CALLS]", "["), separator=", ",
        closing=("]",), id_characters=9,
    ),
    Family(
        name="deepseek_fenced", evidence=(_CALLS, "```json"), body="named",
        opening=(_CALLS,), start=(_CALL, "function", _SEP),
        between=("\n```json\n",), end=("\n```", _CALL_END), separator="\n", closing=(_CALLS_END,),
    ),
    Family(
        name="deepseek", evidence=(_CALLS,), body="named", opening=(_CALLS,),
        start=(_CALL,), between=(_SEP,), end=(_CALL_END,),
        closing=(_CALLS_END,),
    ),
    Family(
        name="phi", evidence=("<|tool_call|>", "<|/tool_call|>"), body="object", opening=("<|tool_call|>", "["),
        separator=", ", closing=("]", "<|/tool_call|>"),
    ),
    Family(
        name="granite", evidence=("<|tool_call|>",), body="object", opening=("<|tool_call|>", "["), separator=", ",
        closing=("]",),
    ),
    Family(
        name="lfm2", evidence=("<|tool_call_start|>",), body="python", opening=("<|tool_call_start|>",),
        closing=("<|tool_call_end|>",),
    ),
    DEFAULT,
    Family(name="pythonic", evidence=("[func_name1(params_name1",), body="python"),
    Family(
        name="llama3", evidence=("<|python_tag|>",), body="object", arguments_key="parameters", separator="; ",
    ),
    Family(
        name="llama3", evidence=('{"name": function name', "parameters"), body="object", arguments_key="parameters",
        separator="; ",
    ),
)  # fmt: skip

PLAIN = Family(name="plain", evidence=(), body="object", separator="\n")
"""What calls are enforced as where the family writes Python: one JSON object a line."""

_NOT_OURS = ("<parameter=", "<arg_key>")
"""Templates that ask for arguments in XML, which we do not read."""


def family_of(template: str) -> Family | None:
    """The family of a chat template; None where it is none that we know."""
    if any(text in template for text in _NOT_OURS):
        return None
    return next((family for family in FAMILIES if all(text in template for text in family.evidence)), None)


def stripped(marks: Marks) -> list[str]:
    """The marks without their white space; those that are nothing else are left out."""
    return [mark for raw in marks if (mark := raw.strip())]
