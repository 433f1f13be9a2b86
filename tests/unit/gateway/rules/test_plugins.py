"""A name in YAML becomes a checked instance, or an error that says where and what."""

import json
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.rules import plugins

ACME = '''
    from collections.abc import Mapping
    from dataclasses import dataclass, field
    from decimal import Decimal
    from pathlib import Path
    from typing import ClassVar


    @dataclass(frozen=True, slots=True, kw_only=True)
    class Zone:
        weight: int
        rate_usd: Decimal = Decimal(0)

        def __post_init__(self):
            if self.weight < 0:
                raise ValueError("`weight` must not be negative")


    @dataclass(frozen=True)
    class Nearest:
        """Prefers what is near.

        More words.
        """

        radius_km: int
        rate_usd: Decimal = Decimal(0)
        share: float = 0.5
        zones: Mapping[str, Zone] = field(default_factory=dict)
        home: Zone | None = None
        places: Mapping[str, Zone | None] | tuple[str, ...] = ()
        tags: tuple[str, ...] = ()
        path: Path | None = None
        json: str = ""
        _seen: list = field(init=False, repr=False, default_factory=list)

        def __post_init__(self):
            if self.radius_km < 1:
                raise ValueError(f"`radius_km` must be at least 1, and is {self.radius_km}")

        def usd(self, ctx, candidate):
            return 0.0


    @dataclass
    class Thawed:
        def usd(self, ctx, candidate):
            return 0.0


    @dataclass(frozen=True)
    class Mute:
        pass


    @dataclass(frozen=True)
    class OneArmed:
        def usd(self, ctx):
            return 0.0


    @dataclass(frozen=True)
    class Slow:
        async def usd(self, ctx, candidate):
            return 0.0


    @dataclass(frozen=True)
    class Speechless:
        def exclude(self, ctx, candidate):
            return None


    @dataclass(frozen=True)
    class Strange:
        what: Exception

        def usd(self, ctx, candidate):
            return 0.0
'''


@pytest.fixture(scope="module", autouse=True)
def acme(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Somebody else's package on the path, and one that breaks while it is imported."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "acme_geo.py").write_text(textwrap.dedent(ACME))
    (folder / "acme_broken.py").write_text("1 / 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


def _build(text: str) -> Any:
    """The plugin for what stands in YAML."""
    return plugins.build("cost", yaml.safe_load(text), where="routes.chat.cost[1]")


def _nearest(text: str) -> Any:
    return _build(f"{{use: 'acme_geo:Nearest', {text}}}")


def test_the_families_are_listed_without_importing_any_plugin() -> None:
    """In a fresh process: only empty packages are imported for it."""
    program = (
        "import sys; from gateway.rules import plugins; listed = {f: plugins.names(f) for f in plugins.FAMILIES};"
        "print(listed); print([m for m in sys.modules if m.startswith('policies.') and m.count('.') > 1])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # our own program
    listed, imported = done.stdout.splitlines()
    assert "'cost': ('deadline', 'decoding', 'leaving', 'money', 'prefill', 'risk', 'success', 'waiting')" in listed
    assert "[]" == imported


def test_private_modules_are_no_plugins() -> None:
    """`backends/_http.py` serves backends and is none."""
    assert [] == [name for name in plugins.names("backend") if name.startswith("_")]
    with pytest.raises(ConfigurationError, match="there is no backend plugin `_http`"):
        plugins.load("backend", "_http")


def test_a_bare_name_and_a_mapping_mean_the_same() -> None:
    """`money` is `{use: money}`."""
    assert _build("money") == _build("{use: money}")
    assert "Money" == type(_build("money")).__name__


def test_parameters_become_what_the_fields_are() -> None:
    """Mappings, sequences and dataclasses nest; text becomes a path; a parameter may be called as it likes."""
    built = _nearest(
        "radius_km: 3, share: 1, zones: {eu: {weight: 2, rate_usd: 0.1}}, home: {weight: 1}, tags: [a, b], "
        "path: /srv/models, json: x"
    )
    assert (3, 1.0, ("a", "b")) == (built.radius_km, built.share, built.tags)
    assert (Path("/srv/models"), "x") == (built.path, built.json)
    assert (2, Decimal("0.1"), 1) == (built.zones["eu"].weight, built.zones["eu"].rate_usd, built.home.weight)
    assert isinstance(built.share, float)


@given(digits=st.decimals(min_value=0, max_value=10_000, places=6))
def test_a_price_keeps_the_digits_that_were_written(digits: Decimal) -> None:
    """Though YAML reads a float."""
    assert digits == _nearest(f"radius_km: 1, rate_usd: {digits:f}").rate_usd
    assert digits == _nearest(f"radius_km: 1, rate_usd: '{digits:f}'").rate_usd


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{use: mony}", "routes.chat.cost[1]: there is no cost plugin `mony` (did you mean `money`? known: `deadline`"),
        ("{use: by_cost}", "routes.chat.cost[1]: there is no cost plugin `by_cost` (known: "),
        ("../../etc", "there is no cost plugin `../../etc`"),
        ("{ues: money}", "routes.chat.cost[1]: `use` should name a cost plugin (known: `deadline`"),
        ("{use: 3}", "`use` should name a cost plugin"),
        ("[money]", "should be a cost plugin: its name, or a mapping with `use`"),
        ("{use: money, mu: 3}", "routes.chat.cost[1].mu: unknown parameter (known: `unknown_usd_per_mtok`)"),
        ("{use: prefill, mus: 3}", "cost[1].mus: unknown parameter (did you mean `mu`? known: `most_extra_s`, `mu`)"),
        ("{use: prefill, mu: -1}", "cost[1].mu: `mu` must not be negative, and is -1.0"),
        ("{use: prefill, mu: .nan}", "cost[1].mu: should be a finite number"),
        ("'acme_geo:Nerest'", "`acme_geo` has no `Nerest` (did you mean `Nearest`?"),
        ("'acme_goe:Nearest'", "`acme_goe:Nearest` cannot be imported: ModuleNotFoundError"),
        ("'acme_broken:X'", "`acme_broken:X` cannot be imported: ZeroDivisionError"),
        ("'acme_geo:Thawed'", "is no cost plugin: it is not a frozen dataclass"),
        ("'acme_geo:dataclass'", "is no cost plugin: it is not a frozen dataclass"),
        ("'acme_geo:Mute'", "is no cost plugin: it needs `def usd(self, ctx, candidate)`"),
        ("'acme_geo:OneArmed'", "is no cost plugin: it needs `def usd(self, ctx, candidate)`"),
        ("'acme_geo:Slow'", "is no cost plugin: it needs `def usd(self, ctx, candidate)`"),
        ("{use: 'acme_geo:Strange', what: 1}", "`Strange` has a parameter of a type that YAML cannot give"),
    ],
)
def test_what_cannot_be_a_plugin_is_named_with_its_place_and_a_way_out(text: str, words: str) -> None:
    """One sentence for each fault."""
    with pytest.raises(ConfigurationError) as caught:
        _build(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("share: 1", "routes.chat.cost[1].radius_km: must be given"),
        ("radus_km: 1", "cost[1].radus_km: unknown parameter (did you mean `radius_km`?"),
        ("radius_km: '3'", "cost[1].radius_km: should be a whole number (this is text to YAML"),
        ("radius_km: 3.0", "cost[1].radius_km: should be a whole number"),
        ("radius_km: true", "cost[1].radius_km: should be a whole number"),
        ("radius_km: null", "cost[1].radius_km: should be a whole number"),
        ("radius_km: 0", "cost[1].radius_km: `radius_km` must be at least 1, and is 0"),
        ("radius_km: 1, share: 1e-3", "cost[1].share: should be a number (this is text to YAML"),
        ("radius_km: 1, _seen: []", "cost[1]._seen: unknown parameter"),
        ("radius_km: 1, zones: {eu: {weight: -1}}", "cost[1].zones.eu: `weight` must not be negative"),
        ("radius_km: 1, zones: {eu: {weigth: 1}}", "zones.eu.weigth: unknown parameter (did you mean `weight`?"),
        ("radius_km: 1, home: {weight: 1, x: 1}", "cost[1].home.x: unknown parameter (known: `rate_usd`, `weight`)"),
        ("radius_km: 1, home: 5", "cost[1].home: should be a mapping"),
        ("radius_km: 1, places: {eu: {size: 1}}", "cost[1].places.eu.size: unknown parameter (known: `rate_usd`"),
        ("radius_km: 1, places: {eu: {weight: x}}", "cost[1].places.eu.weight: should be a whole number"),
        ("radius_km: 1, places: [1]", "cost[1].places[0]: should be text"),
        ("radius_km: 1, tags: [a, 1]", "cost[1].tags[1]: should be text"),
        ("radius_km: 1, tags: a", "cost[1].tags: should be a list"),
        ("radius_km: 1, json: 2024-01-01", "cost[1]: holds what is no text, number, list or mapping: a date"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_path(text: str, words: str) -> None:
    """At any depth, in the words of the policy file."""
    with pytest.raises(ConfigurationError) as caught:
        _nearest(text)
    assert words in str(caught.value)
    assert caught.value.where.startswith("routes.chat.cost[1]")


def test_an_error_does_not_repeat_what_was_written() -> None:
    """A key pasted into the wrong field must not end up in a log."""
    with pytest.raises(ConfigurationError) as caught:
        _nearest("radius_km: sk-very-secret")
    assert "sk-very-secret" not in f"{caught.value} {caught.value.__cause__}"


def test_a_filter_must_say_what_the_client_is_told() -> None:
    """`refusal` is part of its port."""
    with pytest.raises(ConfigurationError, match="is no filter plugin: it has no `refusal`"):
        plugins.build("filter", "acme_geo:Speechless", where="routes.chat.filter[0]")


def test_an_unknown_family_is_answered_with_the_list() -> None:
    """For whoever writes a tool on top."""
    with pytest.raises(ConfigurationError, match="did you mean `filter`"):
        plugins.names("filters")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("X = 1", "none"),
        ("from gateway.types import Price", "none"),
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A: ...\n@dataclass\nclass B: ...",
            "A, B",
        ),
    ],
)
def test_a_plugin_module_has_exactly_one_public_dataclass_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, found: str
) -> None:
    """Else its file name would not say which one is meant."""
    (tmp_path / "odd.py").write_text(source)
    monkeypatch.setattr("policies.cost.__path__", [str(tmp_path)])
    monkeypatch.setattr("policies.cost.__spec__.submodule_search_locations", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "policies.cost.odd", raising=False)
    assert ("odd",) == plugins.names("cost")
    with pytest.raises(ConfigurationError, match=f"must have one public dataclass of its own, and has {found}"):
        plugins.load("cost", "odd")
    sys.modules.pop("policies.cost.odd", None)


def test_a_card_tells_people_what_a_plugin_is() -> None:
    """The docstring, and each parameter with its type, default and unit; private state is no parameter."""
    card = plugins.describe("cost", "acme_geo:Nearest")
    assert ("Prefers what is near.", "More words.") == (card.summary, card.text.splitlines()[-1])
    shown = {parameter.name: (parameter.type, parameter.default, parameter.unit) for parameter in card.parameters}
    assert "_seen" not in shown
    assert ("whole number", None, "") == shown["radius_km"]
    assert ("number", "0.5", "") == shown["share"]
    assert "US dollars" == shown["rate_usd"][2]
    assert "{}" == shown["zones"][1]
    units = {p.name: p.unit for p in plugins.describe("admit", "fixed_concurrency").parameters}
    assert "seconds" == units["wait_s"]
    (default,) = [p.default for p in plugins.describe("backend", "fake").parameters if p.name == "operations"]
    assert default == json.dumps(sorted(json.loads(default or "[]")))  # a set, in the same order each time


def test_the_schema_knows_parameters_defaults_and_what_must_be_given() -> None:
    """And allows nothing else, at any depth."""
    schema = plugins.schema("cost", "acme_geo:Nearest")
    assert ["radius_km"] == schema["required"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Zone"]["additionalProperties"] is False
    assert 0.5 == schema["properties"]["share"]["default"]
    assert "_seen" not in schema["properties"]
    assert json.loads(json.dumps(schema)) == schema
