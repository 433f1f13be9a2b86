from pathlib import Path

import pytest

from backends._engine_model import model_needs
from gateway.errors import ConfigurationError
from gateway.facts import Needs


@pytest.mark.parametrize("name", ["smollm2-135m-instruct:q8_0", "hf:org/repo/file.gguf"])
def test_a_model_that_can_be_pulled_is_missing_until_it_is(tmp_path: Path, name: str) -> None:
    """Known by name or by its place on the hub: the command that gets it."""
    (sentence,) = model_needs(name, tmp_path).missing
    assert f"model {name} is not pulled yet: run `headrace model pull {name}`" == sentence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smollm2-135m-instruct:q8", "Did you mean smollm2-135m-instruct:q8_0?"),
        ("nonsense", "there is no model 'nonsense'"),
        ("nowhere.gguf", "there is no model file"),
    ],
)
def test_a_model_that_cannot_be_is_an_error(tmp_path: Path, name: str, words: str) -> None:
    """Neither a known name nor a file: no pull would help."""
    with pytest.raises(ConfigurationError) as caught:
        model_needs(name, tmp_path)
    assert ("model", True) == (caught.value.where, words in caught.value.bare)


def test_a_file_needs_nothing(tmp_path: Path) -> None:
    """A GGUF file of one's own is there."""
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF")
    assert Needs() == model_needs(str(path), tmp_path)
