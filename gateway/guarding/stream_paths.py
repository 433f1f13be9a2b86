"""The two ways of a stream past its guards: held until they have seen all of it, or through their windows."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.errors import HeadraceError
from gateway.guard import CannotSay
from gateway.guarding.client_side import ClientSide
from gateway.guarding.hearing import Hearing
from gateway.guarding.held_stream import HeldStream
from gateway.guarding.stream_windows import StreamWindows
from gateway.rules.guards import GuardRule
from gateway.wire.stream_texts import Passing, StreamTexts


class StreamPath(Protocol):
    """The way of one stream."""

    async def take(self, passing: Passing) -> None:
        """An event comes.

        Raises:
            GuardBlocked: the rest must not pass; where the client has seen a part, its stream has been ended.
            GuardSilent: likewise, for want of a guard that could look.
        """
        ...

    async def end(self) -> None:
        """It is over. Raises as ``take`` does."""
        ...

    async def cut_short(self) -> None:
        """It broke: what is held back only to wait for more goes out."""
        ...


class Holding:
    """Holds it, has all guards look at the whole, and lets it go as a stream again."""

    def __init__(self, rules: Sequence[GuardRule], hearing: Hearing, client: ClientSide) -> None:
        self._rules = rules
        self._hearing = hearing
        self._client = client
        self._most_bytes = min(rule.most_bytes for rule in rules)
        self._events: list[Passing] = []
        self._bytes = 0
        self._unseen = False

    async def take(self, passing: Passing) -> None:
        """See ``StreamPath.take``."""
        if self._unseen:
            await self._client.show(passing.framed(), opens=True)
            return
        self._events.append(passing)
        self._bytes += len(passing.data)
        if self._bytes > self._most_bytes:
            for rule in self._rules:
                self._hearing.unheard(rule, CannotSay(f"more than {self._most_bytes} bytes"))
            self._unseen = True
            await self._release()

    async def end(self) -> None:
        """See ``StreamPath.end``."""
        if not self._unseen:
            for rule in self._rules:
                stream = HeldStream(self._events)
                texts = await self._hearing.on_answer(rule, stream.transcript.texts, self._data(), streamed=True)
                if texts is not None:
                    stream.rewrite(texts)
            await self._release()
        await self._client.close()

    async def cut_short(self) -> None:
        """See ``StreamPath.cut_short``: nobody has seen any of it."""

    async def _release(self) -> None:
        await self._client.show(self._data(), opens=True)
        self._events = []

    def _data(self) -> bytes:
        return b"".join([event.framed() for event in self._events])


class Flowing:
    """Lets it through windows, and keeps what those will look at who only annotate, after its end."""

    def __init__(self, rules: Sequence[GuardRule], hearing: Hearing, client: ClientSide, texts: StreamTexts) -> None:
        self._windows = StreamWindows([rule for rule in rules if rule.stream == "window"], hearing)
        self._later = [rule for rule in rules if rule.stream == "pass"]
        self._most_bytes = min((rule.most_bytes for rule in self._later), default=0)
        self._hearing = hearing
        self._client = client
        self._texts = texts
        self._kept: list[Passing] = []
        self._kept_bytes = 0

    async def take(self, passing: Passing) -> None:
        """See ``StreamPath.take``."""
        await self._show(lambda: self._windows.feed(passing))

    async def end(self) -> None:
        """See ``StreamPath.end``."""
        await self._show(self._windows.end)
        data = b"".join([event.framed() for event in self._kept])
        for rule in self._later:
            if self._kept_bytes > self._most_bytes:
                self._hearing.unheard(rule, CannotSay(f"more than {self._most_bytes} bytes"))
            else:
                await self._hearing.on_answer(rule, HeldStream(self._kept).transcript.texts, data, streamed=True)
        await self._client.close()

    async def cut_short(self) -> None:
        """See ``StreamPath.cut_short``."""
        if self._client.streaming:
            await self._show(self._windows.end)

    async def _show(self, step: Callable[[], list[Passing]]) -> None:
        try:
            passings = step()
        except HeadraceError:
            await self._client.cut_off(self._texts.blocked())
            raise
        if not passings:
            return
        for passing in passings:
            self._texts.went(passing)
            if self._later and self._kept_bytes <= self._most_bytes:
                self._kept.append(passing)
                self._kept_bytes += len(passing.data)
        data = b"".join([passing.framed() for passing in passings])
        await self._client.show(data, opens=any(passing.shows or passing.ends_all for passing in passings))
