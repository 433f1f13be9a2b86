from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.accounts.provider_usage import read_columns, read_usage
from gateway.accounts.reconciliation import as_json, as_text, reconcile
from gateway.accounts.selection import Selection
from gateway.errors import ConfigurationError
from gateway.price import Usage

DAY = "2023-11-14"

OPENAI = (
    "\ufeffstart_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,model,batch,"
    "input_tokens,output_tokens,input_cached_tokens\n"
    "1699920000,1700006400,,,p,2,gpt-4o-mini-2024-07-18,False,200,102,80\n"
    '1699920000,1700006400,,,p,1,gpt-4o,False,"1,000",5,0\n'
    "1700006400,1700092800,,,,,,,,,\n"
)
ANTHROPIC = (
    "usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,"
    "usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens\n"
    "2023-11-14,claude-x-20250514,60,10,0,30,51\n"
)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "usage.csv"
    path.write_text(text, encoding="utf-8")
    return path


def _served(make_entry: Any, make_attempt: Any, number: int, model: str, **fields: Any) -> Any:
    return make_entry(number, attempts=(make_attempt(model=model, **fields),))


async def test_what_agrees_is_said_to_agree(books: Any, make_entry: Any, make_attempt: Any, tmp_path: Path) -> None:
    """OpenAI's export: the model's date and the thousands' commas make no difference, and a day without use is none."""
    large = Usage(prompt_tokens=1000, output_tokens=5)
    await books.take(
        _served(make_entry, make_attempt, 1, "gpt-4o-mini"),
        _served(make_entry, make_attempt, 2, "gpt-4o-mini"),
        _served(make_entry, make_attempt, 3, "gpt-4o", usage=large),
    )
    theirs = read_usage(_file(tmp_path, OPENAI), read_columns("openai"))
    found = await reconcile(books.tables, Selection(), theirs)
    assert ((), 2, ("requests", "prompt_tokens", "cached_tokens", "output_tokens")) == (
        found.differences,
        found.same,
        found.compared,
    )
    assert {
        "requests": (3, 3),
        "prompt_tokens": (1200, 1200),
        "cached_tokens": (80, 80),
        "output_tokens": (107, 107),
    } == {one.figure: (one.here, one.there) for one in found.sums}
    assert "prices are not compared" in as_text(found)


async def test_each_difference_has_a_name(books: Any, make_entry: Any, make_attempt: Any, tmp_path: Path) -> None:
    """Missing there, missing here, other tokens, another price: by day and model, with what of ours is an estimate."""
    guessed = Usage(prompt_tokens=100, output_tokens=40, estimated=True)
    await books.take(
        _served(make_entry, make_attempt, 1, "a", usage=guessed, cost_usd=Decimal("0.5")),
        _served(make_entry, make_attempt, 2, "b"),
    )
    columns = tmp_path / "columns.yaml"
    columns.write_text("{day: date, model: name, output_tokens: out, cost_usd: [paid, tax]}")
    usage = _file(tmp_path, f"date,name,out,paid,tax\n{DAY},a,45,$0.50,0.1\n{DAY},c,7,0.2,0\n")
    found = await reconcile(books.tables, Selection(), read_usage(usage, read_columns(str(columns))))
    assert [
        ("output_tokens", "a", "output_tokens", 5, 1),
        ("cost_usd", "a", "cost_usd", Decimal("0.1"), 1),
        ("missing_there", "b", "output_tokens", -51, 0),
        ("missing_there", "b", "cost_usd", Decimal("-0.00012"), 0),
        ("missing_here", "c", "output_tokens", 7, 0),
        ("missing_here", "c", "cost_usd", Decimal("0.2"), 0),
    ] == [(one.kind, one.model, one.figure, one.by, one.estimated) for one in found.differences]
    text = as_text(found)
    assert f"{DAY}  a: output tokens: 40 here, 45 there (+5, 1 of our attempts are estimates)" in text
    assert f"{DAY}  c: missing here: output tokens 0 here, 7 there (+7)" in text
    assert b'"kind":"missing_here"' in as_json(found)


async def test_anthropics_input_is_the_sum_of_how_it_met_the_cache(
    books: Any, make_entry: Any, make_attempt: Any, tmp_path: Path
) -> None:
    """Ours has cached and written tokens in it, and theirs are apart."""
    used = Usage(prompt_tokens=100, cached_tokens=30, cache_write_tokens=10, output_tokens=50)
    await books.take(_served(make_entry, make_attempt, 1, "claude-x", usage=used))
    theirs = read_usage(_file(tmp_path, ANTHROPIC), read_columns("anthropic"))
    exact = await reconcile(books.tables, Selection(), theirs)
    assert [("output_tokens", 1)] == [(one.kind, one.by) for one in exact.differences]
    assert () == (await reconcile(books.tables, Selection(), theirs, tolerance=Decimal("0.02"))).differences


async def test_only_what_is_chosen_is_compared(books: Any, make_entry: Any, make_attempt: Any, tmp_path: Path) -> None:
    """A provider knows nothing of other backends and other months."""
    entry = _served(make_entry, make_attempt, 1, "gpt-4o")
    other = _served(make_entry, make_attempt, 2, "gpt-4o", backend="own")
    later = _served(make_entry, make_attempt, 3, "gpt-4o")
    later = replace(later, arrival=replace(later.arrival, received_unix_s=1_700_100_000.0))
    await books.take(entry, other, later)
    columns = tmp_path / "columns.yaml"
    columns.write_text("{day: day, model: model, requests: n}")
    usage = read_usage(_file(tmp_path, f"day,model,n\n{DAY},gpt-4o,1\n"), read_columns(str(columns)))
    selection = Selection(backend="groq", until_unix_s=1_700_006_400.0)
    assert () == (await reconcile(books.tables, selection, usage)).differences
    assert 1 == len((await reconcile(books.tables, replace(selection, backend=None), usage)).differences)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model,n\nm,1\n", "no column `day`"),
        ("day,model,n\nyesterday,m,1\n", "line 2: has a value"),
        ("day,model,n\n2023-11-14,m,many\n", "line 2: has a value"),
        ("day,model,n\n2023-11-14,m,NaN\n", "line 2: has a value"),
        ("day,model,n\n1e99,m,1\n", "line 2: has a value"),
    ],
)
def test_an_export_that_is_none_is_refused_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    """A value that was guessed would be a difference that nobody understands."""
    columns = tmp_path / "columns.yaml"
    columns.write_text("{day: day, model: model, requests: n}")
    with pytest.raises(ConfigurationError, match=words):
        read_usage(_file(tmp_path, text), read_columns(str(columns)))


@pytest.mark.parametrize("text", ["{day: d}", "{day: d, model: m, colour: c}", "[", "7"])
def test_columns_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    """A misspelt field would be a figure that is not compared."""
    path = tmp_path / "columns.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="names no columns"):
        read_columns(str(path))
    with pytest.raises(ConfigurationError, match="no such provider"):
        read_columns("nobody")
