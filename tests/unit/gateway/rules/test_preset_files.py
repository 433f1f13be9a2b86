import shutil
from pathlib import Path

import pytest

from gateway.commands.offline import read_world
from gateway.errors import ConfigurationError
from gateway.rules import plugins
from gateway.rules.preset_files import policy_path, preset_files

RIVALS = set(plugins.names("rank")) - {"by_cost"}


@pytest.mark.parametrize("name", preset_files())
def test_a_preset_is_a_policy_file_that_serves(name: str) -> None:
    """It is named like the rule that it is there for."""
    _, world = read_world(policy_path(name))
    rank = world.routes[0].ranker
    assert (name == "default") or plugins.load("rank", name) is type(rank)


def test_every_published_rule_has_a_preset() -> None:
    """And what runs by default is one, too."""
    assert {"default", *RIVALS} == set(preset_files())


def test_a_file_goes_before_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is a path, there or not."""
    monkeypatch.chdir(tmp_path)
    assert Path("round_robin.yaml") == policy_path("round_robin.yaml")
    assert Path("folder/round_robin") == policy_path("folder/round_robin")
    assert preset_files()["round_robin"] == policy_path("round_robin")
    shutil.copy(preset_files()["round_robin"], tmp_path / "round_robin")
    assert Path("round_robin") == policy_path("round_robin")


def test_a_misspelt_preset_is_answered_with_the_nearest() -> None:
    """And with all of them."""
    with pytest.raises(ConfigurationError) as refused:
        policy_path("defualt")
    assert "defualt: this is neither a file nor a preset (did you mean `default`?" in str(refused.value)
    assert "round_robin" in str(refused.value)
