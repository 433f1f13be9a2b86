"""Compiles what a request wants its answer to look like.

Compiling is llguidance's work, in milliseconds, without Python's lock, and in the thread that reads requests: no stream
waits for it. The same grammar is compiled once; each choice gets a copy, in microseconds.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import GrammarText
from embedded_engine.sampling.constraints import Grammar
from embedded_engine.sampling.grammar import MatcherGrammar
from embedded_engine.sampling.grammar_limits import checked_choices, checked_schema, checked_text
from embedded_engine.sampling.token_bridge import bridge_tokens
from embedded_engine.vocabulary import Vocabulary

__all__ = ["GrammarCompiler"]

_MAX_KEPT = 64
_WHITESPACE = r"[ \n\r\t]{1,32}"
"""Between the parts of a JSON text.

Without a bound, small models at times go on with spaces to the end of their context.
"""

_LOOSE: Mapping[str, Any] = {"whitespace_pattern": _WHITESPACE}
_TIGHT: Mapping[str, Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""The white space of `json.dumps` and no other: nobody reads the arguments of a call, and what is forced is free."""

_LIMITS: dict[str, Any] = {
    "initial_lexer_fuel": 1_000_000,
    "max_grammar_size": 100_000,
    "max_items_in_row": 5_000,
    "step_max_items": 20_000,
    "max_lexer_states": 20_000,  # of some 2 kB each, for every running choice
    "verbose_errors": False,  # an error goes to the client, and its text with it
}

_DEAD_END = "NoExtensionBias"
"""What llguidance calls it when no token can come next, as where a schema refers to itself and to nothing else."""

_PUNCTUATION = frozenset("\\.+*?()|[]{}^$#&-~/")


class GrammarCompiler:
    """Makes grammars for one model; safe to use from several threads.

    Making one takes a third of a second for 50,000 tokens, with Python's lock held: at load, before there are streams.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._compiled: OrderedDict[GrammarText, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._missing = "grammars need llguidance: pip install 'headrace[engine]'"
        if not vocabulary.ends:
            self._missing = "this model has no end token, which a grammar needs"
            return
        with suppress(ImportError):  # `compile` says what is missing, to who asks for a grammar
            self._tokenizer = bridge_tokens(vocabulary, vocabulary.tokenize_inside)

    def compile(self, grammar: GrammarText) -> Callable[[], Grammar]:
        """What begins the grammar anew, for each choice.

        Raises:
            InvalidRequest: It is no grammar, has something that cannot be kept, or is too large; the message says why.
        """
        with self._lock:
            matcher = self._compiled.pop(grammar, None) or self._new_matcher(grammar)
            self._compiled[grammar] = matcher
            if len(self._compiled) > _MAX_KEPT:
                self._compiled.popitem(last=False)

        def begin() -> Grammar:
            return MatcherGrammar(
                matcher.deep_copy(),
                vocabulary_tokens=len(self._vocabulary.pieces),
                ends=self._vocabulary.ends,
                param=grammar.param,
            )

        return begin

    def _new_matcher(self, grammar: GrammarText) -> Any:
        if self._tokenizer is None:
            raise InvalidRequest(self._missing, param=grammar.param)
        from llguidance import LLMatcher, LLParserLimits  # noqa: PLC0415 - an engine runs without it

        matcher = LLMatcher(self._tokenizer, _source(grammar), log_level=0, limits=LLParserLimits(**_LIMITS))
        if not matcher.is_error():
            # A grammar may be too much for the bounds at its first token already: here, not in the middle of a step.
            first = matcher.deep_copy()
            first.compute_ff_tokens()
            first.compute_bitmask()
            if not first.is_error():
                return matcher
            matcher = first
        reason = _reason(matcher.get_error())
        raise InvalidRequest(f"{grammar.param} cannot be kept: {reason}", param=grammar.param)


def _source(grammar: GrammarText) -> str:
    """The grammar as llguidance reads it: a list of named parts, of which the first is where the answer begins."""
    match grammar.kind:
        case "json_object":
            parts = [_schema_part(grammar, {"type": "object"})]
        case "json_schema":
            parts = [_schema_part(grammar, checked_schema(grammar, grammar.text))]
        case "regex":
            parts = [_regex_part(checked_text(grammar))]
        case "choice":
            parts = [_regex_part("|".join(map(_literal, checked_choices(grammar))))]
        case "lark":
            named = {
                name: _schema_part(grammar, checked_schema(grammar, text), _TIGHT) for name, text in grammar.schemas
            }
            parts = [{"lark_grammar": checked_text(grammar)}, *({"name": name, **part} for name, part in named.items())]
    return msgspec.json.encode({"grammars": parts}).decode()


def _schema_part(grammar: GrammarText, schema: Any, white: Mapping[str, Any] = _LOOSE) -> dict[str, Any]:
    """A schema with our options in it, which go before those that it brings along."""
    options = {**white, "lenient": not grammar.strict, "coerce_one_of": not grammar.strict}
    if schema is False:
        raise InvalidRequest(f"{grammar.param} cannot be kept: the schema allows nothing", param=grammar.param)
    return {"json_schema": {**({} if schema is True else schema), "x-guidance": options}}


def _regex_part(expression: str) -> dict[str, Any]:
    slashed = re.sub(r"(\\.)|/", lambda match: match[1] or r"\/", expression, flags=re.DOTALL)
    return {"lark_grammar": f"start: TEXT\nTEXT: /{slashed}/"}


def _literal(text: str) -> str:
    """An expression that matches this text alone."""
    return "".join(f"\\{character}" if character in _PUNCTUATION else character for character in text)


def _reason(error: str) -> str:
    """The one line of llguidance's message that says what is wrong; the others repeat the grammar."""
    if _DEAD_END in error:
        return "no text can match it"
    lines = [line.strip() for line in error.splitlines() if line.strip()] or ["unknown"]
    return next((line for line in lines if line.startswith("error:")), lines[0]).removeprefix("error:").strip()
