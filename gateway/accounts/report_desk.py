"""Makes reports beside a gateway that serves: one at a time, in a thread of its own, a little of the ledger at once."""

import asyncio
from collections.abc import Callable, Sequence

from gateway.accounts.report import Report, make_report
from gateway.accounts.report_reading import MOST_TASKS, TooMuch, read
from gateway.accounts.selection import Selection
from gateway.errors import ConfigurationError, InvalidRequest, Overloaded
from gateway.ports import Clock
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.tables import LedgerTables

MOST_WAITING = 4
PAGE_ROWS = 4_000
"""Python does one thing at a time: while a page is counted, requests wait, for about a millisecond."""

_RETRY_S = 5.0


class ReportDesk:
    """``opened`` opens the ledger's tables anew, for each report on its thread's own loop."""

    def __init__(self, opened: Callable[[], LedgerTables], *, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._place = asyncio.Semaphore(1)
        self._waiting = 0

    async def report(self, selection: Selection, by: Sequence[str]) -> Report:
        """The report.

        Raises:
            InvalidRequest: it is about too much for a gateway that serves.
            Overloaded: too many are asked for, or the ledger cannot be read now.
        """
        if self._waiting >= MOST_WAITING:
            raise Overloaded("too many reports are asked for already", retry_after_s=_RETRY_S)
        self._waiting += 1
        try:
            async with self._place:
                return await asyncio.to_thread(lambda: asyncio.run(self._make(selection, by)))
        except TooMuch as error:
            raise InvalidRequest(f"{error}; `headrace report` has no such bound") from None
        except (ConfigurationError, LedgerLost):  # whose words name a file or a server
            raise Overloaded("the ledger cannot be reached now", retry_after_s=_RETRY_S) from None
        finally:
            self._waiting -= 1

    async def _make(self, selection: Selection, by: Sequence[str]) -> Report:
        tables = self._opened()
        try:
            reading = await read(tables, selection, by, page_rows=PAGE_ROWS, most_tasks=MOST_TASKS)
            return await make_report(tables, selection, by, now_unix_s=self._clock.unix_s(), reading=reading)
        finally:
            await tables.close()
