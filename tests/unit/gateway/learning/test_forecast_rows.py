"""Rows of answered prompts: what is read, what is refused and where, and the requests that they stand for."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.learning.forecast_rows import Conversations, Row, entry_of, read_rows

ROW = {
    "conv": "a",
    "turn": 0,
    "prompt": "Grüße, 世界 🌍",
    "context_tokens": 9,
    "prev_answer_tokens": [],
    "answer_tokens": 5,
}


def _line(**changes: Any) -> str:
    return json.dumps({**ROW, **changes})


@pytest.fixture
def rows_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines, compressed where asked for."""

    def write(*lines: str, pack: Callable[[bytes], bytes] = bytes) -> Path:
        path = tmp_path / "rows.jsonl"
        path.write_bytes(pack("\n".join(lines).encode()))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_rows_are_read_compressed_or_not(rows_file: Callable[..., Path], pack: Callable[[bytes], bytes]) -> None:
    """Empty lines and unknown fields are passed over, and numbers may name conversations."""
    path = rows_file(_line(part=3), "", _line(conv=7, model="m", tenant="t"), pack=pack)
    one, other = read_rows(path)
    assert ("a", "Grüße, 世界 🌍", "model", "tenant") == (one.conv, one.prompt, one.model, one.tenant)
    assert (7, "m", "t") == (other.conv, other.model, other.tenant)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"line 2"),
        ("[]", r"line 2.*Expected `object`"),
        ("[" * 100_000, r"line 2"),
        ('{"conv": "a"}', r"line 2.*missing required field `turn`"),
        (_line(answer_tokens="5"), r"line 2.*\$\.answer_tokens"),
        (_line(answer_tokens=-1), r"line 2.*\$\.answer_tokens"),
        (_line(prev_answer_tokens=[1, 10**12]), r"line 2.*\$\.prev_answer_tokens"),
        (_line(context_tokens=None), r"line 2.*\$\.context_tokens"),
        ('{"conv": "\udcff"}', r"line 2"),
    ],
)
def test_what_is_no_row_is_refused_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    """Rows before it were read by then."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"{_line()}\n{line}\n".encode(errors="surrogateescape"))
    rows = read_rows(path)
    next(rows)
    with pytest.raises(ConfigurationError, match=words):
        next(rows)


def test_a_file_that_is_missing_or_cut_off_is_an_error_with_its_name(
    tmp_path: Path, rows_file: Callable[..., Path]
) -> None:
    """Not a traceback."""
    with pytest.raises(ConfigurationError, match=r"none\.jsonl: cannot be read: No such file"):
        list(read_rows(tmp_path / "none.jsonl"))
    cut = rows_file(*[_line(conv=n) for n in range(2000)], pack=lambda data: gzip.compress(data)[:-2000])
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl.*cannot be read"):
        list(read_rows(cut))
    bad = rows_file(_line(), pack=lambda data: b"\x1f\x8b" + data)
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl.*cannot be read"):
        list(read_rows(bad))


def test_a_row_stands_for_the_request_with_the_turns_before_it() -> None:
    """Earlier prompts as they were, answers of their length, the last one with its end."""
    conversations = Conversations()
    conversations.request(Row(**{**ROW, "prompt": "first"}))
    tail = {"last_answer_tail": "the end."}
    row = Row(**{**ROW, "turn": 1, "prompt": "second", "context_tokens": 60, "prev_answer_tokens": [50], **tail})
    asked, answer, prompt = conversations.request(row).messages
    assert ("user", "first") == (asked.role, asked.content)
    assert ("assistant", 200, True) == (answer.role, len(answer.text()), answer.text().endswith("the end."))
    assert ("user", "second") == (prompt.role, prompt.content)


def test_turns_that_were_not_seen_are_filled_in() -> None:
    """A file may begin in the middle of a conversation."""
    row = Row(**{**ROW, "turn": 2, "prev_answer_tokens": [1, 2]})
    assert [0, 4, 0, 8] == [len(message.text()) for message in Conversations().request(row).messages[:-1]]


def test_answers_that_cannot_be_so_long_take_no_memory() -> None:
    """A count of a hundred million tokens stands for a long answer, not for 400 MB."""
    row = Row(**{**ROW, "turn": 1, "prev_answer_tokens": [100_000_000]})
    assert 1024 * 1024 == len(Conversations().request(row).messages[1].text())


def test_a_prompt_that_was_shortened_has_its_length_again() -> None:
    """Its two ends stand where they stood."""
    prompt = Conversations().request(Row(**{**ROW, "prompt": "headtail", "prompt_chars": 1000})).messages[0].text()
    assert (1000, "head", "tail") == (len(prompt), prompt[:4], prompt[-4:])


def test_conversations_are_kept_apart_by_tenant_and_bounded() -> None:
    """Of the ones seen last, a few prompts each."""
    conversations = Conversations()
    conversations.request(Row(**{**ROW, "tenant": "one", "prompt": "secret"}))
    other = Row(**{**ROW, "tenant": "two", "turn": 1, "prev_answer_tokens": [1]})
    assert "secret" not in conversations.request(other).messages[0].text()
    for number in range(1000):
        conversations.request(Row(**{**ROW, "conv": number, "turn": number % 3}))
    assert 256 == len(conversations._prompts)


def test_the_entry_of_a_row_is_an_answer_that_ended_well() -> None:
    """With the tokens that the row has."""
    row = Row(**ROW)
    entry = entry_of(Conversations().request(row), row)
    assert ("ok", 5) == (entry.outcome.status, entry.attempts[0].usage.output_tokens)  # type: ignore[union-attr]  # it has
