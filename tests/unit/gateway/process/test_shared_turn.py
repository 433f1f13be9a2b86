import asyncio

from gateway.process.shared_turn import SharedTurn


class Work:
    """Notes what it saw, when it is let go on."""

    def __init__(self) -> None:
        self.state = 0
        self.seen: list[int] = []
        self.go_on = asyncio.Event()

    async def do(self) -> None:
        """One turn."""
        self.seen.append(self.state)
        await self.go_on.wait()


async def test_those_who_ask_meanwhile_share_the_next_turn() -> None:
    """It begins after they asked, and so sees what they have seen."""
    work = Work()
    turn = SharedTurn(work.do)
    first = asyncio.create_task(turn.take())
    await asyncio.sleep(0)
    work.state = 1
    later = [asyncio.create_task(turn.take()) for _ in range(5)]
    await asyncio.sleep(0)
    work.go_on.set()
    await asyncio.gather(first, *later)
    assert [0, 1] == work.seen


async def test_who_asks_after_a_turn_gets_one_of_their_own() -> None:
    """Nothing that has ended answers them."""
    work = Work()
    work.go_on.set()
    turn = SharedTurn(work.do)
    await turn.take()
    await turn.take()
    assert [0, 0] == work.seen


async def test_a_turn_that_fails_is_told_to_who_took_it_and_the_next_one_works() -> None:
    """The lock is free again."""
    failures = [ValueError("no")]

    async def fail_once() -> None:
        if failures:
            raise failures.pop()

    turn = SharedTurn(fail_once)
    results = await asyncio.gather(turn.take(), return_exceptions=True)
    await turn.take()
    assert ["no"] == [str(result) for result in results]
    assert not turn.lock.locked()
