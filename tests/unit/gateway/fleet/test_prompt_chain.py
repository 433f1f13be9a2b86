"""The digests of a prompt."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation import FunctionCall, Message, Part, Prompt, ToolCall
from gateway.fleet import prompt_chain, prompt_layout
from gateway.fleet.prefix import PrefixIndex
from gateway.fleet.prompt_chain import SessionChains
from gateway.types import ChatRequest, Operation

Make = Callable[..., Any]

LONG = "All work and no play makes Jack a dull boy. " * 120  # 5,280 bytes: two chunks and a tail


def chain(request: ChatRequest, *, chunk_bytes: int = 2048) -> tuple[bytes, ...]:
    """The digests of a request that nobody has seen the beginning of."""
    return tuple(SessionChains(chunk_bytes=chunk_bytes).chain(request).digests)


text = st.text(max_size=12)
contents = st.one_of(
    st.none(), text, st.lists(text.map(lambda value: Part(type="text", text=value)), max_size=2).map(tuple)
)
calls = st.one_of(
    st.none(),
    st.lists(
        st.builds(ToolCall, id=text, function=st.builds(FunctionCall, name=text, arguments=text)),
        min_size=1,
        max_size=2,
    ).map(tuple),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "system"]),
    content=contents,
    name=st.one_of(st.none(), text),
    tool_calls=calls,
    tool_call_id=st.one_of(st.none(), text),
)


def _meaning(message: Message) -> tuple[Any, ...]:
    """What a template can see of a message: parts of text are one text, and no text is empty text."""
    return (message.role, message.text(), message.name, message.tool_calls or (), message.tool_call_id)


def test_a_prompt_shorter_than_a_chunk_has_no_digest(make_request: Make) -> None:
    """What it could save is not worth remembering."""
    assert () == chain(make_request("hello"))


def test_every_chunk_has_one_digest_of_sixteen_bytes_and_its_end(make_request: Make) -> None:
    """Cut at 2 KB, and at the end of the turn."""
    found = SessionChains().chain(make_request(LONG))
    assert [16, 16, 16] == [len(digest) for digest in found.digests]
    assert 3 == len(set(found.digests))
    assert (2048, 4096, found.length_bytes) == found.ends_bytes
    assert found.length_bytes == len(LONG) + len("user") + 2


def test_short_turns_make_no_chunks_of_their_own(make_request: Make) -> None:
    """Forty turns of a hundred bytes are cut where a quarter of 2 KB has come together."""
    ends_bytes = SessionChains().chain(make_request(*["x" * 100] * 40)).ends_bytes
    assert all(512 <= end - start < 512 + 120 for start, end in zip((0, *ends_bytes), ends_bytes, strict=False))


@given(turns=st.lists(messages, min_size=1, max_size=5), more=st.lists(messages, max_size=3))
def test_a_continued_conversation_begins_with_all_digests_of_the_turn_before(
    make_request: Make, turns: list[Message], more: list[Message]
) -> None:
    """Whatever the turns hold: the layout only ever appends."""
    before = chain(make_request(messages=tuple(turns)), chunk_bytes=4)
    after = chain(make_request(messages=tuple(turns + more)), chunk_bytes=4)
    assert before == after[: len(before)]


@given(one=st.lists(messages, max_size=3), other=st.lists(messages, max_size=3))
def test_prompts_that_differ_in_meaning_differ_in_digests(
    make_request: Make, one: list[Message], other: list[Message]
) -> None:
    """No content can pose as the end of a field, as another role or as another turn."""
    first = chain(make_request(messages=tuple(one)), chunk_bytes=1)
    second = chain(make_request(messages=tuple(other)), chunk_bytes=1)
    assert ([_meaning(m) for m in one] == [_meaning(m) for m in other]) == (first == second)


@pytest.mark.parametrize(
    "change",
    [{"tenant": "other"}, {"model": "large"}, {"raw": {"tools": b'[{"type":"function"}]'}}],
    ids=["tenant", "model", "tools"],
)
def test_the_first_digest_depends_on_tenant_model_and_tools(make_request: Make, change: dict[str, Any]) -> None:
    """A salt per tenant and model; tool definitions stand at the head of a rendered prompt."""
    assert chain(make_request(LONG))[0] != chain(make_request(LONG, **change))[0]


def test_tenant_and_model_cannot_be_shifted_into_each_other(make_request: Make) -> None:
    """`ab` + `c` is not `a` + `bc`."""
    assert chain(make_request(LONG, tenant="ab", model="c")) != chain(make_request(LONG, tenant="a", model="bc"))


def test_media_enter_by_their_content(make_request: Make) -> None:
    """The same words under another picture are another prompt, and a large picture takes no more chunks."""

    def shown(url: str) -> tuple[bytes, ...]:
        picture = Part(type="image_url", image_url={"url": url})
        return chain(make_request(messages=(Message(role="user", content=(picture, Part(type="text", text=LONG))),)))

    assert shown("data:a") == shown("data:a")
    assert shown("data:a")[0] != shown("data:b")[0]
    assert len(shown("data:a")) == len(shown("data:" + "a" * 10_000))


def test_a_completion_prompt_shares_what_it_continues(make_request: Make) -> None:
    """Text goes on where it stopped, without a length before it."""

    def digests(prompt: Prompt) -> tuple[bytes, ...]:
        return chain(make_request(prompt=prompt, operation=Operation.COMPLETION), chunk_bytes=8)

    assert digests(LONG) == digests(LONG + "more of it")[: len(digests(LONG))]
    assert digests((1, 2, 3, 4, 5, 6)) == digests((1, 2, 3, 4, 5, 6, 7, 8))[:1]
    assert digests(tuple(range(20))) != digests("".join(f"{token} " for token in range(20)))
    assert digests(("abcd", "efgh")) != digests(("abcde", "fgh"))
    assert digests(((1, 2), (3, 4, 5))) != digests(((1, 2, 3), (4, 5)))


def test_a_lone_surrogate_is_no_obstacle(make_request: Make) -> None:
    """JSON can carry one; the digest need not be readable."""
    assert 2 == len(chain(make_request(messages=(Message(role="user", content="\ud800" * 1000),))))


def test_who_asks_again_gets_the_same_chain_without_hashing(make_request: Make) -> None:
    """The fleet asks when it looks and when it sends."""
    chains, request = SessionChains(), make_request(LONG)
    assert chains.chain(request) is chains.chain(request)


class Edit:
    """What a client may do to its history between two turns."""

    def __init__(self, kind: str, at: int, message: Message) -> None:
        self.kind, self.at, self.message = kind, at, message

    def __repr__(self) -> str:
        return f"{self.kind} {self.at} {self.message}"

    def of(self, history: list[Message]) -> list[Message]:
        """The history afterwards."""
        at = self.at % (len(history) + 1)
        if self.kind == "go_on":
            return [*history, self.message]
        if self.kind == "change":
            return [*history[:at], self.message, *history[at + 1 :]]
        if self.kind == "cut":
            return history[:at] or [self.message]
        return [*history[:at], *history[at + 1 :]] or [self.message]


edits = st.lists(
    st.builds(Edit, st.sampled_from(["go_on", "go_on", "go_on", "change", "cut", "drop"]), st.integers(0, 9), messages),
    max_size=8,
)


@given(
    edits=edits, first=messages, hint=st.sampled_from(["", "session-1"]), most_bytes=st.sampled_from([0, 4000, 10**6])
)
def test_the_running_chain_is_the_chain_from_scratch_whatever_becomes_of_the_history(
    make_request: Make, edits: list[Edit], first: Message, hint: str, most_bytes: int
) -> None:
    """Goes on, is edited anywhere, is cut short; with and without a name, and with hardly any memory."""
    chains, history = SessionChains(most_bytes=most_bytes, worth_bytes=0, chunk_bytes=16), [first]
    for edit in edits:
        history = edit.of(history)
        request = make_request(messages=tuple(history), session=hint)
        assert SessionChains(chunk_bytes=16).chain(request) == chains.chain(request)
        assert 0 <= chains.held_bytes <= most_bytes


@given(pieces=st.lists(st.text(max_size=20), min_size=1, max_size=6))
def test_a_completion_that_goes_on_has_the_chain_from_scratch(make_request: Make, pieces: list[str]) -> None:
    """Each prompt is the one before and more."""
    chains = SessionChains(worth_bytes=0, chunk_bytes=16)
    for count in range(1, len(pieces) + 1):
        request = make_request(prompt="".join(pieces[:count]), operation=Operation.COMPLETION)
        assert SessionChains(chunk_bytes=16).chain(request) == chains.chain(request)


def test_a_session_of_five_hundred_turns_hashes_every_turn_once(
    make_request: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the conversation is, a turn costs what the turn brings."""
    laid_out = []
    real = prompt_chain.message_bytes
    monkeypatch.setattr(prompt_chain, "message_bytes", lambda message: laid_out.append(message) or real(message))
    chains, turns = SessionChains(worth_bytes=0), [f"turn {number} " * 20 for number in range(1000)]
    for count in range(1, 1001, 2):
        chains.chain(make_request(*turns[:count]))
    assert 999 == len(laid_out)
    assert 1 == len(chains)


def test_two_tenants_with_the_same_words_and_the_same_hint_share_nothing(make_request: Make) -> None:
    """Neither the digests nor the remembered conversation."""
    chains = SessionChains()
    one = chains.chain(make_request(LONG, session="s", tenant="one"))
    other = chains.chain(make_request(LONG, session="s", tenant="other"))
    assert 2 == len(chains)
    assert set() == set(one.digests) & set(other.digests)


def test_a_megabyte_is_a_prompt_like_any_other_and_not_remembered_where_it_would_push_out_the_rest(
    make_request: Make,
) -> None:
    """One conversation takes half of the memory at most."""
    chains = SessionChains(most_bytes=1_000_000, worth_bytes=0)
    chains.chain(make_request("small"))
    chain_ = chains.chain(make_request("x" * 1_000_000))
    assert 489 == len(chain_.digests)
    assert 1 == len(chains)


def test_the_memory_of_conversations_is_bounded_and_the_oldest_go_first(make_request: Make) -> None:
    """By their text and what it takes to keep it."""
    chains = SessionChains(most_bytes=100_000, worth_bytes=0)
    for number in range(500):
        chains.chain(make_request(f"{number} " * 200))
        assert chains.held_bytes <= 100_000
    assert 40 < len(chains) < 120


def test_a_short_prompt_is_not_remembered_and_has_the_same_chain(make_request: Make) -> None:
    """Below 4 KB: to find it again would take as long as to hash it."""
    chains, short = SessionChains(), "word " * 500
    for text_ in (short, short + " and more", LONG):
        request = make_request(text_)
        assert SessionChains(worth_bytes=0).chain(request) == chains.chain(request)
    assert 1 == len(chains)


@given(sent=st.lists(st.lists(messages, max_size=4), max_size=4), asked=st.lists(messages, max_size=4))
def test_no_more_is_claimed_to_be_warm_than_the_common_beginning(
    make_request: Make, sent: list[list[Message]], asked: list[Message]
) -> None:
    """Of any prompt that was sent there before; and nothing at all for another tenant."""
    index, chains = PrefixIndex(), SessionChains(worth_bytes=0, chunk_bytes=8)
    cache = index.open()
    for history in sent:
        index.read(chains.chain(make_request(messages=tuple(history))).digests, cache, 0.0)
    found = chains.chain(make_request(messages=tuple(asked)))
    (depth,) = index.depths(found.digests, [cache], 0.0)
    common_bytes = max((_common_bytes(history, asked) for history in sent), default=0)
    assert (found.ends_bytes[depth - 1] if depth else 0) <= common_bytes
    stranger = chains.chain(make_request(messages=tuple(asked), tenant="stranger"))
    assert [0] == index.depths(stranger.digests, [cache], 0.0)


def _common_bytes(one: list[Message], other: list[Message]) -> int:
    first, second = (b"".join(map(prompt_layout.message_bytes, history)) for history in (one, other))
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))))
