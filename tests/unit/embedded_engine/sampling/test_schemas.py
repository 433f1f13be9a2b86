import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import GrammarText
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.grammar_compiler import GrammarCompiler
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.schemas import KEPT, REFUSED
from tests.unit.embedded_engine.toy import END, ToyKernels

_VOCABULARY = Vocabulary(ToyKernels())
_COMPILER = GrammarCompiler(_VOCABULARY)
_MOST_TOKENS = 900
_FORMATS = jsonschema.FormatChecker(formats=("email", "ipv4", "uuid"))
"""Python knows no year 0, which RFC 3339 does."""


def _says(schema: Any, seed: int) -> str | None:
    """What a model without any sense, but with an urge to come to an end, says; None where it came to none."""
    grammar = _COMPILER.compile(GrammarText(kind="json_schema", text=json.dumps(schema)))()
    chooser = Chooser(Sampling(seed=seed), choice=0, prompt=(), ends=_VOCABULARY.ends, grammar=grammar)
    dice, said = np.random.default_rng(seed), b""
    for _ in range(_MOST_TOKENS):
        row = dice.standard_normal(261).astype(np.float32)
        row[list(b'"}],0')] += np.float32(4)
        row[END] += np.float32(6)
        token = chooser.draw(row).token
        if token in _VOCABULARY.ends:
            return said.decode()
        said += _VOCABULARY.pieces[token]
        chooser.advance(token)
    return None


@pytest.mark.parametrize("name", KEPT)
def test_what_comes_to_an_end_is_valid(name: str) -> None:
    """Judged by another implementation of JSON Schema, for three seeds."""
    said = [_says(KEPT[name], seed) for seed in range(3)]
    whole = [json.loads(each) for each in said if each is not None]
    for value in whole:
        jsonschema.validate(value, KEPT[name], format_checker=_FORMATS)
    assert whole


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_that_cannot_be_kept_is_refused_with_the_reason(name: str) -> None:
    """By the field's name, before anything is drawn."""
    schema, word = REFUSED[name]
    with pytest.raises(InvalidRequest, match=word) as caught:
        _COMPILER.compile(GrammarText(kind="json_schema", text=json.dumps(schema)))
    assert "response_format" == caught.value.param
    assert len(str(caught.value)) < 500
