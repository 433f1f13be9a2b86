"""What the other side of a driver does, step by step: made up by a fuzzer, kept in a corpus, played by tests."""

import asyncio
from collections.abc import Awaitable

import msgspec

KILOBYTE = b"a" * 1024
READ_BYTES = 16 * 1024
"""What one read brings of a flood."""


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """``steps`` are verbs with an argument; bytes are written as characters of the same number.

    ====================  ==========================================================================================
    both                  ``send`` bytes; ``flood`` kilobytes of ``a``
    ``server``            the client: ``advance`` seconds, ``hold`` and ``take`` bytes of its answers, ``leave``; and
                          around it: ``resume`` who serves, ``shutdown``
    ``upstream``          ``eof``, ``lost`` (by a reset); and who reads its answers: ``go``
    ====================  ==========================================================================================
    """

    driver: str
    service: str
    steps: tuple[tuple[str, str | int], ...] = ()

    @property
    def sent(self) -> bytes | None:
        """What was sent, where that is all that was done."""
        if any(verb != "send" for verb, _ in self.steps):
            return None
        return b"".join(str(data).encode("latin-1") for _, data in self.steps)

    def cut(self, every: int) -> "Case":
        """The same bytes, cut otherwise."""
        sent = (self.sent or b"").decode("latin-1")
        pieces = tuple(("send", sent[at : at + every]) for at in range(0, len(sent), every))
        return msgspec.structs.replace(self, steps=pieces)


def flood(kilobytes: str | int) -> list[bytes]:
    """The reads of a flood."""
    data = KILOBYTE * int(kilobytes)
    return [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]


async def failures_of(play_steps: Awaitable[object]) -> list[object]:
    """Everything that went wrong where nobody could catch it, while ``play_steps`` ran."""
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    try:
        await play_steps
    finally:
        loop.set_exception_handler(None)
    return failures
