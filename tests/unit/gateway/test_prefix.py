"""The digests of a prompt, and the index of who has seen them."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation import FunctionCall, Message, Part, Prompt, ToolCall
from gateway.prefix import PrefixIndex, chain
from gateway.types import Operation

Make = Callable[..., Any]

LONG = "All work and no play makes Jack a dull boy. " * 120  # 5,280 bytes: two chunks and a tail

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
    """Its tail would be continued by the next turn, so there is nothing to recognise."""
    assert () == chain(make_request("hello"), "small")


def test_every_full_chunk_has_one_digest_of_sixteen_bytes(make_request: Make) -> None:
    """The tail that does not fill a chunk is left out."""
    digests = chain(make_request(LONG), "small")
    assert [16, 16] == [len(digest) for digest in digests]
    assert 2 == len(set(digests))


@given(turns=st.lists(messages, min_size=1, max_size=5), more=st.lists(messages, max_size=3))
def test_a_continued_conversation_begins_with_all_digests_of_the_turn_before(
    make_request: Make, turns: list[Message], more: list[Message]
) -> None:
    """Whatever the turns hold: the layout only ever appends."""
    before = chain(make_request(messages=tuple(turns)), "small", chunk_bytes=4)
    after = chain(make_request(messages=tuple(turns + more)), "small", chunk_bytes=4)
    assert before == after[: len(before)]


@given(one=st.lists(messages, max_size=3), other=st.lists(messages, max_size=3))
def test_prompts_that_differ_in_meaning_differ_in_digests(
    make_request: Make, one: list[Message], other: list[Message]
) -> None:
    """No content can pose as the end of a field, as another role or as another turn."""
    first = chain(make_request(messages=tuple(one)), "small", chunk_bytes=1)
    second = chain(make_request(messages=tuple(other)), "small", chunk_bytes=1)
    assert ([_meaning(m) for m in one] == [_meaning(m) for m in other]) == (first == second)


@pytest.mark.parametrize(
    "change",
    [{"tenant": "other"}, {"model": "large"}, {"raw": {"tools": b'[{"type":"function"}]'}}],
    ids=["tenant", "model", "tools"],
)
def test_the_first_digest_depends_on_tenant_model_and_tools(make_request: Make, change: dict[str, Any]) -> None:
    """A salt per tenant and model; tool definitions stand at the head of a rendered prompt."""
    model = change.pop("model", "small")
    assert chain(make_request(LONG), "small")[0] != chain(make_request(LONG, **change), model)[0]


def test_tenant_and_model_cannot_be_shifted_into_each_other(make_request: Make) -> None:
    """`ab` + `c` is not `a` + `bc`."""
    assert chain(make_request(LONG, tenant="ab"), "c") != chain(make_request(LONG, tenant="a"), "bc")


def test_media_enter_by_their_content(make_request: Make) -> None:
    """The same words under another picture are another prompt, and a large picture takes no more chunks."""

    def shown(url: str) -> tuple[bytes, ...]:
        picture = Part(type="image_url", image_url={"url": url})
        return chain(
            make_request(messages=(Message(role="user", content=(picture, Part(type="text", text=LONG))),)), "m"
        )

    assert shown("data:a") == shown("data:a")
    assert shown("data:a")[0] != shown("data:b")[0]
    assert len(shown("data:a")) == len(shown("data:" + "a" * 10_000))


def test_a_completion_prompt_shares_what_it_continues(make_request: Make) -> None:
    """Text goes on where it stopped, without a length before it."""

    def digests(prompt: Prompt) -> tuple[bytes, ...]:
        return chain(make_request(prompt=prompt, operation=Operation.COMPLETION), "small", chunk_bytes=8)

    assert digests(LONG) == digests(LONG + "more of it")[: len(digests(LONG))]
    assert digests((1, 2, 3, 4, 5, 6)) == digests((1, 2, 3, 4, 5, 6, 7, 8))[:1]
    assert digests(tuple(range(20))) != digests("".join(f"{token} " for token in range(20)))
    assert digests(("abcd", "efgh")) != digests(("abcde", "fgh"))
    assert digests(((1, 2), (3, 4, 5))) != digests(((1, 2, 3), (4, 5)))


def test_a_lone_surrogate_is_no_obstacle(make_request: Make) -> None:
    """JSON can carry one; the digest need not be readable."""
    assert 1 == len(chain(make_request(messages=(Message(role="user", content="\ud800" * 700),)), "small"))


def _digests(*names: str) -> tuple[bytes, ...]:
    return tuple(name.encode().ljust(16, b".") for name in names)


def test_each_backend_is_warm_up_to_its_own_longest_prefix() -> None:
    """All in one walk, in bytes; a backend that never saw any of it is cold."""
    index = PrefixIndex(100, chunk_bytes=10)
    index.remember(_digests("a", "b", "c"), "long")
    index.remember(_digests("a"), "short")
    index.remember(_digests("x", "b", "c"), "elsewhere")
    warm = index.warm_bytes(_digests("a", "b", "c", "d"), ["long", "short", "elsewhere", "new"])
    assert {"long": 30, "short": 10, "elsewhere": 0, "new": 0} == warm


def test_a_backend_that_restarts_is_cold_and_the_others_stay_warm() -> None:
    """And its place in the masks is free for the next one, which inherits nothing."""
    index = PrefixIndex(100, chunk_bytes=10)
    index.remember(_digests("a", "b"), "one")
    index.remember(_digests("a"), "two")
    index.forget("one")
    index.forget("never seen")
    assert 1 == len(index)
    index.remember(_digests("z"), "three")
    assert {"one": 0, "two": 10, "three": 0} == index.warm_bytes(_digests("a", "b"), ["one", "two", "three"])


def test_the_index_is_bounded_and_forgets_the_least_recently_sent() -> None:
    """Sending again keeps a prompt; asking does not."""
    index = PrefixIndex(3, chunk_bytes=1)
    index.remember(_digests("a"), "one")
    index.remember(_digests("b"), "one")
    index.remember(_digests("a"), "one")
    index.warm_bytes(_digests("b"), ["one"])
    index.remember(_digests("c", "d"), "one")
    assert 3 == len(index)
    assert {"one": 1} == index.warm_bytes(_digests("a"), ["one"])
    assert {"one": 0} == index.warm_bytes(_digests("b"), ["one"])


def test_a_chain_loses_its_tail_before_its_head() -> None:
    """A head without its tail is still worth something; a tail without its head can never be matched."""
    index = PrefixIndex(3, chunk_bytes=1)
    index.remember(_digests("a", "b", "c"), "one")
    index.remember(_digests("x"), "one")
    assert {"one": 2} == index.warm_bytes(_digests("a", "b", "c"), ["one"])


@pytest.mark.parametrize("seed", range(20))
def test_the_index_agrees_with_a_plain_set_per_backend(seed: int) -> None:
    """Against a model without masks, through random sends and restarts, as long as nothing is evicted."""
    dice = random.Random(seed)  # noqa: S311  # a repeatable shuffle, no secret
    index = PrefixIndex(10_000, chunk_bytes=1)
    backends = [f"b{number}" for number in range(5)]
    seen = {backend: set() for backend in backends}
    for _ in range(300):
        digests = _digests(*(str(dice.randrange(3)) + str(depth) for depth in range(dice.randrange(5))))
        backend = dice.choice(backends)
        if dice.random() < 0.05:
            index.forget(backend)
            seen[backend].clear()
        else:
            index.remember(digests, backend)
            seen[backend].update(digests)
        expected = {}
        for name in backends:
            depth = 0
            while depth < len(digests) and digests[depth] in seen[name]:
                depth += 1
            expected[name] = depth
        assert expected == index.warm_bytes(digests, backends)


def test_an_index_without_room_is_refused() -> None:
    """At construction, with the number."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        PrefixIndex(0)
