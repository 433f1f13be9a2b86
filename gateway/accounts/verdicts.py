"""What clients said of their tasks, told to whoever learns from it.

The process that took an outcome in tells its own policies, once it is committed: those that learn on all replicas share
what they have learned among themselves.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from gateway.accounts import task_queries as queries
from gateway.accounts.money import usd
from gateway.forecast import Forecast
from gateway.seldom import Seldom
from gateway.stores.tables import LedgerTables
from gateway.task import JudgedRequest, Verdict, VerdictObserver
from gateway.types import Status

MOST_REQUESTS_TOLD = 200

_log = logging.getLogger(__name__)


class Verdicts:
    """Makes verdicts of outcomes. ``observers`` are asked for each time, since a reload may replace them."""

    def __init__(self, tables: LedgerTables, observers: Callable[[], Sequence[VerdictObserver]]) -> None:
        self._tables = tables
        self._observers = observers
        self._complain = Seldom(_log)
        self.observer_failures = 0

    @property
    def wanted(self) -> bool:
        """Whether anybody learns from them."""
        return bool(self._observers())

    async def tell(self, tenant: str, task: str, history: Sequence[tuple[Any, ...]]) -> None:
        """Tells the outcome that stands now, the first of ``history``; the second is the one that it replaced.

        Raises:
            LedgerLost: which requests it is about cannot be read.
        """
        requests = await self._tables.rows(queries.JUDGED, tenant=tenant, task=task, most=MOST_REQUESTS_TOLD)
        if not requests:
            requests = await self._tables.rows(queries.JUDGED_ALONE, tenant=tenant, task=task, most=1)
        at_unix_s, _, success, score = history[0][:4]
        verdict = Verdict(
            tenant=tenant,
            task=task,
            success=_said(success),
            score=score,
            at_unix_s=at_unix_s,
            revises=len(history) > 1,
            earlier=_said(history[1][2]) if len(history) > 1 else None,
            requests=tuple([_judged(row) for row in requests]),
        )
        for observer in self._observers():
            try:
                observer.judged(verdict)
            except Exception as error:  # noqa: BLE001  # a plugin's bug must not keep the verdict from the others
                self.observer_failures += 1
                self._complain("%s failed with %s", type(observer).__qualname__, type(error).__qualname__)


def _said(success: int | None) -> bool | None:
    return None if success is None else bool(success)


def _judged(row: tuple[Any, ...]) -> JudgedRequest:
    request, received_unix_s, route, backend, model, status, prompt_tokens, output_tokens, pico_usd = row
    kind = None
    if prompt_tokens is not None:
        kind = Forecast(prompt_tokens=prompt_tokens, output_tokens_p50=output_tokens, output_tokens_p90=0).kind
    return JudgedRequest(
        id=request,
        route=route,
        backend=backend or "",
        model=model or "",
        answered=status == Status.OK,
        kind=kind,
        cost_usd=usd(pico_usd) if pico_usd is not None else None,
        received_unix_s=received_unix_s,
    )
