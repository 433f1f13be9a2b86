import gc
import subprocess
import sys
from pathlib import Path

import pydantic
import pytest

from gateway.settings import Settings
from gateway.worlds import Worlds

_ROUTE = "backends: {b: {use: fake}}\nroutes: {r: {models: ['*'], targets: [b], GUARDS}}"
_READING = """
import sys
from pathlib import Path
import gateway.app
from gateway.settings import Settings
from gateway.worlds import Worlds
Worlds(Settings(policy=Path(sys.argv[1]))).first()
print("gateway.attempt.guarded" in sys.modules)
"""


def test_what_a_file_is_checked_with_is_given_up(tmp_path: Path) -> None:
    """The models of its plugins' parameters, once it is read; the next reading makes new ones."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("backends: {b: {use: fake}}")
    worlds = Worlds(Settings(policy=policy))
    assert ["b"] == list(worlds.first().backends)
    gc.collect()
    assert "Fake" not in {model.__name__ for model in pydantic.BaseModel.__subclasses__()}
    assert ["b"] == list(worlds.first().backends)


@pytest.mark.parametrize(
    ("guards", "loaded"),
    [
        ("guards: []", False),
        ("guards: [{use: pattern, patterns: [x], action: block, when: before, on_error: refuse}]", True),
    ],
)
def test_what_guards_need_is_loaded_with_the_file_that_has_some(tmp_path: Path, guards: str, loaded: bool) -> None:
    """And not by the first request, for which others would have to wait; where there are none it is not loaded."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(_ROUTE.replace("GUARDS", guards))
    command = [sys.executable, "-c", _READING, str(policy)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{loaded}\n" == done.stdout
