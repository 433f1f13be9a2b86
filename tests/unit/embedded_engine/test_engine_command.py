import pytest

from embedded_engine.engine_command import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--threads", "-1"], "--threads: must be at least 0"),
        (["--threads", "many"], "--threads: invalid"),
        (["--context-tokens", "1"], "--context-tokens: must be at least 256"),
        (["--kernels", "cuda"], "--kernels: invalid choice"),
    ],
)
def test_a_number_out_of_range_is_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and exit code 2, before a model is loaded."""
    with pytest.raises(SystemExit) as caught:
        main(["bench", *arguments])
    assert 2 == caught.value.code
    assert words in capsys.readouterr().err
