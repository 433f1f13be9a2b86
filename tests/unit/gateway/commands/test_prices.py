import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.prices.published import PublishedPrices

POLICY = """
backends:
  shop: {use: openai_compatible, preset: groq}
  own: {use: openai_compatible, base_url: "http://10.0.0.7:8000/v1", models: [qwen]}
  said:
    use: fake
    models:
      m:
        price:
          input_usd_per_mtok: 1.5
          output_usd_per_mtok: 2
          tiers: [{above_prompt_tokens: 200000, input_usd_per_mtok: 3}]
          hours: [{from_utc: "16:30", until_utc: "00:30", output_usd_per_mtok: 1}]
          service_tiers: {flex: {input_usd_per_mtok: 0.75}}
routes:
  r: {models: ["*"], targets: [shop/llama-3.3-70b-versatile, shop/other, own, said]}
"""
LISTED = [{"id": "acme", "models": [{"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": 0.1}}]}]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy with prices of every origin."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_the_table_says_where_each_figure_comes_from(run: Any, policy: Path) -> None:
    """And under which conditions it is another; the exit code tells whether some are unknown."""
    code, out, err = run("prices", policy)
    rows = {tuple(line.split()[:2]): line for line in out.splitlines()[1:]}
    assert (1, "", 4) == (code, err, len(rows))
    assert "groq's list (genai-prices" in rows["shop", "llama-3.3-70b-versatile"]
    assert ("unknown", "unknown") == (rows["own", "qwen"].split()[-1], rows["shop", "other"].split()[-1])
    assert ["1.5", "-", "-", "2"] == rows["said", "m"].split()[2:6]
    assert rows["said", "m"].endswith("16:30-00:30 UTC, prompt > 200000, flex")


def test_the_table_as_json_has_every_digit(run: Any, policy: Path) -> None:
    """Amounts are text, so that nobody rounds them."""
    rows = {(row["backend"], row["model"]): row for row in json.loads(run("prices", policy, "--json")[1])}
    assert ("1.5", None) == (rows["said", "m"]["price"]["input_usd_per_mtok"], rows["own", "qwen"]["price"])


def test_who_states_its_cost_with_each_answer_is_not_unknown(run: Any, tmp_path: Path) -> None:
    """Nobody knows such a price beforehand."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("backends: {shop: {use: openai_compatible, base_url: 'http://10.0.0.7/v1', models: [m], "
                      "states_cost: true}}")  # fmt: skip
    code, out, _ = run("prices", policy)
    assert (0, "each answer says what it costs") == (code, out.splitlines()[1].split("  ")[-1].strip())


def test_an_update_takes_the_place_of_what_was_shipped(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of a file; an address and the installed package are other sources."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    source = tmp_path / "data.json"
    source.write_text(json.dumps(LISTED))
    code, out, err = run("prices", "update", "--source", source)
    assert (0, "", True) == (code, err, "the prices of 1 providers" in out)
    assert "acme\n" == run("prices", "--providers")[1]
    price = PublishedPrices(tmp_path / "state" / "prices.json.zst").find("acme", "m")
    assert price is not None
    assert Decimal("0.1") == price.input_usd_per_mtok


def test_the_installed_package_is_a_source(run: Any, tmp_path: Path) -> None:
    """What is shipped was made of it."""
    code, out, _ = run("prices", "update", "--source", "package", "--to", tmp_path / "p.zst")
    assert (0, True) == (code, "providers" in out)
    assert PublishedPrices(tmp_path / "p.zst").find("groq", "llama-3.3-70b-versatile") is not None


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '[{"id": "acme"}]'])
def test_an_update_that_is_none_changes_nothing(run: Any, tmp_path: Path, content: str) -> None:
    """The list that works stays."""
    source, kept = tmp_path / "data.json", tmp_path / "prices.json.zst"
    source.write_text(content)
    kept.write_bytes(b"as it was")
    code, _, err = run("prices", "update", "--source", source, "--to", kept)
    assert (1, True, b"as it was") == (code, f"{source}: no prices" in err, kept.read_bytes())


def test_without_a_policy_file_it_says_what_it_can_do(run: Any) -> None:
    """It fetches nothing by itself."""
    code, out, err = run("prices")
    assert (1, "", True) == (code, out, "headrace prices update" in err)
