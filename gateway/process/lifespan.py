"""What starts with an application and ends with it, as ASGI servers want it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager


def lifespan_of(
    start: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]]
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """A lifespan that starts, and closes however it ends: also where not all of it could start."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        try:
            await start()
            yield
        finally:
            await close()

    return lifespan
