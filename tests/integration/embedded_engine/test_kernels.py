"""What the engine relies on in each library, and the traps that were met in them."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import KernelsMissing, LoadFailed, ModelNotFound, NoChatTemplate
from embedded_engine.kernels import llama_cpp
from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.port import ContextShape, DecodeError, Kernels, Row
from embedded_engine.kernels.self_test import open_tested_context
from embedded_engine.messages import ChatMessage, Generate
from embedded_engine.models import default_model_dir, find_model
from embedded_engine.pull import PullFailed, pull_model
from embedded_engine.settings import EngineSettings
from tests.unit.embedded_engine.toy import run

pytestmark = pytest.mark.model

_CELLS = 256


def _shape(micro_batch_rows: int = 31) -> ContextShape:
    return ContextShape(kv_tokens=_CELLS, sequences=8, threads=1, batch_rows=64, micro_batch_rows=micro_batch_rows)


@pytest.fixture(params=["ik_llama", "llama_cpp"])
def kernels(request: pytest.FixtureRequest, default_model_path: Path) -> Iterator[Kernels]:
    """The default model with a small, empty context."""
    kernels = load_kernels(str(default_model_path), request.param)
    kernels.open_context(_shape())
    yield kernels
    kernels.close()


def _rows(sequence: int, tokens: Sequence[int], start: int = 0) -> list[Row]:
    """A passage whose last row wants logits."""
    last = len(tokens) - 1
    return [Row(sequence, token, start + index, wants_logits=index == last) for index, token in enumerate(tokens)]


def _tokens(kernels: Kernels, text: str) -> list[int]:
    return kernels.tokenize(text, add_special=False, parse_special=False)


def test_text_survives_its_tokens(kernels: Kernels) -> None:
    """Any script, and control text as text; with control tokens only where they are asked for."""
    text = "The mill, die Mühle, 水车 🌊 <|im_start|>\n\n  x"
    tokens = _tokens(kernels, text)
    assert text.encode() == b"".join(map(kernels.piece, tokens))
    assert not any(map(kernels.is_control, tokens))
    special = kernels.tokenize("<|im_start|>x", add_special=False, parse_special=True)
    assert [True, False] == [kernels.is_control(token) for token in special]
    assert (b"", b"<|im_start|>") == (kernels.piece(special[0]), kernels.piece(special[0], special=True))
    assert kernels.is_end(kernels.tokenize("<|im_end|>", add_special=False, parse_special=True)[0])


def test_sequences_do_not_see_each_other(kernels: Kernels) -> None:
    """What a neighbour holds does not show in a sequence's logits, save in their last bits."""
    tokens = _tokens(kernels, "The capital of France is")
    kernels.decode(_rows(0, tokens))
    alone = kernels.logits(len(tokens) - 1).copy()
    kernels.remove(0)
    rows = _rows(1, _tokens(kernels, "Nobody expects the")) + _rows(0, tokens)
    kernels.decode(rows)
    beside = kernels.logits(len(rows) - 1).copy()
    assert " Paris" == kernels.piece(int(np.argmax(alone))).decode() == kernels.piece(int(np.argmax(beside))).decode()
    assert np.max(np.abs(alone - beside)) < 2.0


def test_a_copied_sequence_goes_its_own_way(kernels: Kernels) -> None:
    """The copy knows the prompt, and what is added to it leaves the original alone."""
    tokens = _tokens(kernels, "The capital of France is")
    kernels.decode(_rows(0, tokens[:-1]))
    kernels.share(0, 3, len(tokens) - 1)
    kernels.decode(_rows(3, _tokens(kernels, " not in doubt: the city of London is"), len(tokens) - 1))
    kernels.decode(_rows(0, tokens[-1:], len(tokens) - 1))
    assert b" Paris" == kernels.piece(int(np.argmax(kernels.logits(0))))


def test_lanes_keep_their_own_cells(kernels: Kernels) -> None:
    """The same sequence in two lanes is two; each has a lane's room; a batch over both has its logits in order."""
    kernels.open_context(replace(_shape(), lanes=2))
    tokens = _tokens(kernels, "The capital of France is")
    other = _tokens(kernels, "The capital of Germany is")
    filler = _tokens(kernels, " river" * 60)
    for sequence in (1, 2, 3, 9, 10, 11):
        kernels.decode(_rows(sequence, filler))
    rows = _rows(8, other) + _rows(0, tokens)
    kernels.decode(rows)
    best = [kernels.piece(int(np.argmax(kernels.logits(row)))) for row in (len(other) - 1, len(rows) - 1)]
    assert [b" Berlin", b" Paris"] == best


def test_a_saved_sequence_goes_on_in_any_lane(kernels: Kernels) -> None:
    """Bit for bit the same as where it was saved; what was kept too long can be cut off; a full lane says no."""
    kernels.open_context(replace(_shape(), lanes=2))
    tokens = _tokens(kernels, "The capital of France is")
    kernels.decode(_rows(3, tokens[:-1]))
    saved = kernels.save(3)
    kernels.decode(_rows(3, tokens[-1:], len(tokens) - 1))
    expected = kernels.logits(0).copy()
    assert kernels.restore(9, saved)
    kernels.decode(_rows(9, tokens[-1:], len(tokens) - 1))
    np.testing.assert_array_equal(expected, kernels.logits(0))
    kernels.remove(9, 2)
    kernels.decode(_rows(9, tokens[2:], 2))
    assert b" Paris" == kernels.piece(int(np.argmax(kernels.logits(len(tokens) - 3))))
    filler = _tokens(kernels, " river" * 60)
    for sequence in range(4):
        kernels.remove(sequence)
        kernels.decode(_rows(sequence, filler))
    assert not kernels.restore(5, kernels.save(0))
    kernels.decode(_rows(10, tokens))
    assert b" Paris" == kernels.piece(int(np.argmax(kernels.logits(len(tokens) - 1))))


def test_hidden_states_do_not_depend_on_how_a_text_is_cut(kernels: Kernels) -> None:
    """One row for each token; a new text forgets the last one; the sequences are left alone."""
    tokens = _tokens(kernels, "The mill stands on the river below the bridge")
    kernels.decode(_rows(0, tokens[:4]))
    whole = kernels.hidden_states(tokens, 0)
    parts = [kernels.hidden_states(tokens[start : start + 4], start) for start in range(0, len(tokens), 4)]
    assert (len(tokens), 576) == whole.shape
    np.testing.assert_allclose(whole, np.concatenate(parts), atol=0.2)
    assert np.max(np.abs(whole[0] - whole[-1])) > 1
    kernels.decode(_rows(0, tokens[4:5], 4))


def test_a_prompt_finds_room_in_scattered_cells(kernels: Kernels) -> None:
    """ik_llama.cpp wants neighbouring cells for a batch: they are moved together, and what was kept still counts."""
    tokens = _tokens(kernels, "The capital of France is")
    filler = _tokens(kernels, " river" * 60)
    for position in range(60):
        rows = [Row(sequence, filler[position], position, wants_logits=False) for sequence in (1, 2, 3, 4)]
        kernels.decode(rows)
    kernels.remove(1)
    kernels.remove(3)
    kernels.decode(_rows(0, tokens))  # holes are one cell wide, save the few at the end
    kernels.decode(_rows(5, filler[:50]))
    kernels.decode(_rows(6, filler[:50]))
    kernels.remove(0)
    kernels.decode(_rows(7, tokens))
    assert b" Paris" == kernels.piece(int(np.argmax(kernels.logits(len(tokens) - 1))))


def test_a_full_context_is_an_error_and_not_the_end(kernels: Kernels) -> None:
    """After it, removing a sequence makes room again."""
    filler = _tokens(kernels, " river" * 60)
    for sequence in range(4):
        kernels.decode(_rows(sequence, filler))
    with pytest.raises(DecodeError, match="no room"):
        kernels.decode(_rows(4, filler))
    kernels.remove(4)
    kernels.remove(0)
    kernels.decode(_rows(4, filler))


def test_the_libraries_chatter_is_not_heard(
    default_model_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Loading prints hundreds of lines by itself."""
    for name in ("ik_llama", "llama_cpp"):
        kernels = load_kernels(str(default_model_path), name)
        kernels.open_context(_shape())
        kernels.close()
    assert ("", "") == capfd.readouterr()
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", ["ik_llama", "llama_cpp"])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, name: str) -> None:
    """As an error, not as a crash."""
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(LoadFailed):
        load_kernels(str(tmp_path / "bad.gguf"), name)


def test_an_unknown_layout_of_parameters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better no kernels than settings written into the wrong fields."""
    monkeypatch.setitem(llama_cpp._DEFAULTS, "n_ctx", 513)
    with pytest.raises(KernelsMissing, match="n_ctx is 512"):
        load_kernels("model.gguf", "llama_cpp")


@pytest.mark.parametrize("name", ["ik_llama", "llama_cpp"])
def test_large_micro_batches_that_give_garbage_are_found_and_capped(name: str) -> None:
    """ik_llama.cpp computes Q4_1 wrongly from 32 rows on; llama.cpp does not."""
    try:
        model = pull_model(
            "smollm2-135m-instruct:q4_1", default_model_dir(), say=print, progress=lambda _done, _total: None
        )
    except PullFailed as error:
        pytest.skip(f"the model cannot be pulled: {error}")
    kernels = load_kernels(model.path, name)
    result = open_tested_context(kernels, _shape(micro_batch_rows=64))
    kernels.close()
    assert {"ik_llama": 31, "llama_cpp": 64}[name] == result.micro_batch_rows


@pytest.mark.parametrize("name", ["ik_llama", "llama_cpp"])
def test_a_base_model_completes_and_does_not_chat(name: str) -> None:
    """Gemma 3 270M: another vocabulary, another tokenizer, no chat template."""
    try:
        model = find_model("gemma3-270m:q4_k_m", default_model_dir())
    except ModelNotFound as error:
        pytest.skip(str(error))
    engine = Engine(EngineSettings(model_path=model.path, kernels=name, context_tokens=128, slots=2, threads=1))
    assert not engine.ready.has_chat_template
    with pytest.raises(NoChatTemplate, match="does not chat"):
        engine.prepare(Generate(id=1, messages=(ChatMessage(role="user", content="Hello"),)))
    answers = run(engine, Generate(id=2, text="The capital of France is", temperature=0, max_tokens=2))
    engine.close()
    assert " the capital" == answers.text(2)
