from typing import Any

import pytest

from gateway.judging.held import Held, TooLongToHold
from gateway.judging.overheard import Overheard

HEADERS = [(b"content-type", b"application/json")]
STREAM = [(b"content-type", b"text/event-stream")]


@pytest.fixture
def client(make_exchange: Any) -> Any:
    """The client's side."""
    return make_exchange()


@pytest.fixture
def held(client: Any) -> Held:
    """Its exchange, for answers of ten bytes at most."""
    made = Held(client, [(b"x-held", b"yes")], lambda: 7.5)
    made.hold(most_bytes=10, serves_unsure=False)
    return made


async def test_nothing_goes_out_before_it_is_released(held: Held, client: Any) -> None:
    """A whole answer or a stream; then it goes as it came."""
    await held.answer(200, HEADERS, b"{}")
    assert ([], False, True) == (client.calls, held.started, held.holding)
    assert held.shown_s is None
    await held.release_all()
    assert (["answer"], b"{}", True, 7.5) == (client.calls, client.received, held.started, held.shown_s)


async def test_a_stream_is_released_as_a_stream(held: Held, client: Any) -> None:
    """Opened, written and closed."""
    await held.open(200, STREAM)
    await held.write(b"one")
    await held.write(b"two")
    await held.close()
    assert ([], False) == (client.calls, held.streaming)
    await held.release_all()
    assert (["open", "write", "close"], b"onetwo") == (client.calls, client.received)


async def test_what_was_held_before_is_forgotten_by_the_next_answer(held: Held, client: Any) -> None:
    """An attempt that broke off, or a step that did not pass."""
    await held.open(200, STREAM)
    await held.write(b"bad")
    await held.open(200, STREAM)
    await held.write(b"good")
    await held.release_all()
    assert b"good" == client.received
    assert 1 == client.calls.count("open")


@pytest.mark.parametrize("streamed", [True, False])
async def test_too_much_is_not_held(held: Held, client: Any, streamed: bool) -> None:
    """The attempt ends there; a stream at the byte beyond the bound."""
    if streamed:
        await held.open(200, STREAM)
        await held.write(b"x" * 10)
    with pytest.raises(TooLongToHold):
        await (held.write(b"x") if streamed else held.answer(200, HEADERS, b"x" * 11))
    assert [] == client.calls


@pytest.mark.parametrize("streamed", [True, False])
async def test_too_much_is_let_go_where_the_step_serves_what_is_unsure(client: Any, streamed: bool) -> None:
    """All of it, in order."""
    held = Held(client, [], lambda: 7.5)
    held.hold(most_bytes=10, serves_unsure=True)
    if streamed:
        await held.open(200, STREAM)
        for piece in (b"0123456789", b"ab", b"cd"):
            await held.write(piece)
        await held.close()
        assert ["open", "write", "write", "write", "close"] == client.calls
        assert b"0123456789abcd" == client.received
    else:
        await held.answer(200, HEADERS, b"x" * 11)
        assert (["answer"], b"x" * 11) == (client.calls, client.received)
    assert not held.holding


async def test_what_is_let_through_is_not_held(held: Held, client: Any) -> None:
    """The last step's answer: nothing is kept of it."""
    await held.open(200, STREAM)
    await held.write(b"bad")
    held.let_through()
    await held.open(200, STREAM)
    await held.write(b"x" * 1000)
    assert (b"x" * 1000, 0, True) == (client.received, held.kept.length_bytes, held.streaming)


async def test_the_clients_own_side_is_passed_on(held: Held, client: Any) -> None:
    """Its body, its headers, whether it is there."""
    client.request_body = b"{}"
    client.sending.set()
    assert b"{}" == await held.body()
    assert (client.operation, client.headers, False) == (held.operation, held.headers, held.gone)
    client.gone = True
    assert held.gone


async def test_only_successes_are_overheard_and_all_goes_through(client: Any) -> None:
    """An error of ours is no answer."""
    heard = Overheard(client, most_bytes=10)
    await heard.answer(502, HEADERS, b"no")
    assert (0, 502, b"no") == (heard.kept.length_bytes, client.status, client.received)


async def test_what_is_overheard_is_bounded(client: Any) -> None:
    """Nothing is kept of an answer that is too long, and the client has it all."""
    heard = Overheard(client, most_bytes=10)
    await heard.open(200, STREAM)
    for _ in range(4):
        await heard.write(b"xxx")
    assert (True, b"", 12, b"x" * 12) == (
        heard.kept.too_long,
        heard.kept.bytes,
        heard.kept.length_bytes,
        client.received,
    )
    assert (True, True) == (heard.started, heard.streaming)
    await heard.close()
    assert not heard.streaming
