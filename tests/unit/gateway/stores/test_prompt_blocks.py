from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.prompt_chain import SessionChains
from gateway.stores.prompt_blocks import BLOCK_BYTES, block_ids, read_ids


def _ids(request: Any) -> list[int]:
    chain = SessionChains().chain(request)
    return read_ids(block_ids(chain.digests, chain.ends_bytes))


def test_a_conversation_one_turn_later_begins_with_the_same_numbers(make_request: Any) -> None:
    """One for every two kilobytes; what came new has new ones."""
    turns = ["Word. " * 700, "Answer. " * 100, "Question? " * 300]
    shorter, longer = _ids(make_request(*turns[:1])), _ids(make_request(*turns))
    assert len(shorter) == 4200 // BLOCK_BYTES
    assert shorter == longer[: len(shorter)]
    assert len(longer) == len(set(longer)) == sum(map(len, turns)) // BLOCK_BYTES


def test_other_words_other_tenants_and_short_prompts_share_nothing(make_request: Any) -> None:
    """Nobody learns from the numbers that another said the same."""
    words = "Word. " * 700
    assert not set(_ids(make_request(words))) & set(_ids(make_request(words, tenant="other")))
    assert not set(_ids(make_request(words))) & set(_ids(make_request(f"x{words}")))
    assert [] == _ids(make_request("short"))
    assert [] == read_ids(None)


@given(lengths=st.lists(st.integers(1, BLOCK_BYTES), max_size=40))
def test_every_full_block_has_one_number(lengths: list[int]) -> None:
    """However the chunks are cut, as long as none is longer than a block."""
    ends = [sum(lengths[: at + 1]) for at in range(len(lengths))]
    digests = [bytes([at]) * 16 for at in range(len(lengths))]
    ids = read_ids(block_ids(digests, ends))
    assert len(ids) == len(set(ids)) == (ends[-1] if ends else 0) // BLOCK_BYTES
