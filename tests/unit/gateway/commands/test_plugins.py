from pathlib import Path
from typing import Any

import pytest

from gateway.rules import plugins


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
    assert "  wait_s: number, seconds; default 10.0" in out
    assert "  limit: whole number; default 64" in out


@pytest.mark.parametrize("family", plugins.FAMILIES)
def test_every_plugin_can_be_described(run: Any, family: str) -> None:
    """The reference has no gap."""
    for name in plugins.names(family):
        code, out, err = run("plugins", f"{family}/{name}")
        assert (0, "") == (code, err)
        assert out.startswith(f"{family}/{name}\n")
        assert [] == [mark for mark in ("::", "``", "collections.abc", ": anything", "<class") if mark in out]


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


@pytest.mark.parametrize("family", plugins.FAMILIES)
def test_a_family_can_be_listed_alone(run: Any, family: str) -> None:
    """By its name, as the whole list has it."""
    code, out, _ = run("plugins", family)
    assert (0, [family + ":"]) == (code, [line for line in out.splitlines() if not line.startswith(" ")])
    assert len(plugins.names(family)) + 1 == len(out.splitlines())
    assert out in run("plugins")[1]


ACME = """
from collections.abc import Mapping
from dataclasses import dataclass, field

@dataclass(frozen=True)
class FarAway:
    '''Charges for the way.'''

    zones: Mapping[str, int] | tuple[str, ...] = ()
    home: str = "eu"

    def usd(self, ctx, candidate):
        return 0.0

@dataclass(frozen=True)
class Mute:
    home: str
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's."""
    (tmp_path / "acme_far.py").write_text(ACME)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("acme")
def test_a_class_of_ones_own_is_described_in_the_family_whose_verb_it_has(run: Any) -> None:
    """Which family it is need not be said."""
    code, out, _ = run("plugins", "acme_far:FarAway")
    assert 0 == code
    assert [
        "cost/acme_far:FarAway",
        "",
        "Charges for the way.",
        "",
        "Parameters:",
        "  zones: list of text or mapping of text to whole number; default []",
        '  home: text; default "eu"',
    ] == out.splitlines()


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("acme_far:Mute", "`acme_far:Mute` is a plugin of no family (verbs are classify: `forecast`; admit: `admit`;"),
        ("acme_far:FarAwa", "`acme_far` has no `FarAwa`"),
        ("acme_nowhere:X", "is its package installed here, or on PYTHONPATH?"),
    ],
)
def test_a_class_that_is_no_plugin_is_told_so_once(run: Any, name: str, words: str) -> None:
    """In one line."""
    code, out, err = run("plugins", name)
    assert (1, "", 1) == (code, out, err.count("\n"))
    assert words in err
