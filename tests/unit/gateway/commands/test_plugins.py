from typing import Any

import pytest

from gateway import plugins


def test_the_list_has_every_plugin_with_its_summary(run: Any) -> None:
    """By family, as the policy file has them."""
    code, out, _ = run("plugins")
    assert 0 == code
    for family in plugins.FAMILIES:
        assert f"{family}:\n" in out
        for name in plugins.names(family):
            assert f"\n  {name}" in out
    assert "The cheapest first." in out


@pytest.mark.parametrize("name", ["fixed_concurrency", "admit/fixed_concurrency"])
def test_one_plugin_is_described_whole(run: Any, name: str) -> None:
    """Its documentation, and each parameter with type, unit and default."""
    code, out, _ = run("plugins", name)
    assert (0, True) == (code, out.startswith("admit/fixed_concurrency\n"))
    assert "retry_after_s = max(1," in out
    assert "  wait_s: float, seconds; default 10.0" in out
    assert "  limit: int; default 64" in out


@pytest.mark.parametrize("family", plugins.FAMILIES)
def test_every_plugin_can_be_described(run: Any, family: str) -> None:
    """The reference has no gap."""
    for name in plugins.names(family):
        code, out, err = run("plugins", f"{family}/{name}")
        assert (0, "") == (code, err)
        assert "Parameters:" in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mony", "there is no plugin `mony`"),
        ("cost/mony", "did you mean `money`?"),
        ("cots/money", "there is no plugin family `cots`"),
    ],
)
def test_an_unknown_name_is_answered_with_those_there_are(run: Any, name: str, words: str) -> None:
    """On the error stream, with the exit code 1."""
    code, out, err = run("plugins", name)
    assert (1, "") == (code, out)
    assert words in err
    assert "cost" in err
