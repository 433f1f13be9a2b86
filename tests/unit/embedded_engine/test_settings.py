import os

import pytest

from embedded_engine.settings import EngineSettings, default_threads


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slots", 0),
        ("step_tokens", 0),
        ("micro_batch_rows", 0),
        ("context_tokens", -1),
        ("context_tokens", 7),
        ("threads", -1),
        ("slots", 63),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(field: str, value: int) -> None:
    """A step must cover one row for every slot, too."""
    with pytest.raises(ValueError, match=field):
        EngineSettings(model_path="model.gguf", **{field: value})


def test_a_core_is_left_to_the_others() -> None:
    """Where there is more than one."""
    assert 1 <= default_threads() <= max(1, (os.cpu_count() or 1) - 1)
