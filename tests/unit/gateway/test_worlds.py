import gc
from pathlib import Path

import pydantic

from gateway.settings import Settings
from gateway.worlds import Worlds


def test_what_a_file_is_checked_with_is_given_up(tmp_path: Path) -> None:
    """The models of its plugins' parameters, once it is read; the next reading makes new ones."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("backends: {b: {use: fake}}")
    worlds = Worlds(Settings(policy=policy))
    assert ["b"] == list(worlds.first().backends)
    gc.collect()
    assert "Fake" not in {model.__name__ for model in pydantic.BaseModel.__subclasses__()}
    assert ["b"] == list(worlds.first().backends)
