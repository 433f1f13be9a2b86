"""All pages besides inference, and what works behind them: accounts of tasks, files and batches.

Loaded when somebody first asks for one of them: see ``gateway.annex``.
"""

from starlette.applications import Starlette
from starlette.types import ASGIApp

from gateway.accounts.opening import Accounts, open_accounts
from gateway.accounts.task_book import OutcomeCounter
from gateway.batching.opening import Batches, open_batches
from gateway.house import House
from gateway.openapi.document_page import DocumentPage
from gateway.openapi.page import Page
from gateway.pages.accounts import AccountPages
from gateway.pages.error_answers import ERROR_ANSWERS
from gateway.pages.models import ModelPages
from gateway.pages.ollama import OllamaPages
from gateway.pages.own import OwnPages
from gateway.pages.responses import ResponsePages


class ClientPages:
    """The application of the pages, and the desk of batches. Nothing is connected yet."""

    def __init__(self, house: House) -> None:
        self._batches = open_batches(
            house.settings, house.pipeline, house.bench, house.ledger, house.rows, house.metrics
        )
        routes = _routes(house, self._batches)
        site = Starlette(routes=routes, exception_handlers=dict(ERROR_ANSWERS))
        site.router.redirect_slashes = False  # to an address made of the client's own Host header
        self.routes = routes
        self.asgi: ASGIApp = site

    def start(self) -> None:
        """Begins to run the batches that are there."""
        self._batches.start()

    async def stop(self) -> None:
        """Leaves them to whoever comes next; idempotent."""
        await self._batches.close()


def _routes(house: House, batches: Batches) -> list[Page]:
    clock, body_timeout_s, started_unix_s = house.clock, house.settings.body_timeout_s, house.started_unix_s
    routes: list[Page] = [
        *OwnPages(house.open_paths, world=house.world, door=house.door, success=house.success).routes(),
        *ModelPages(house.world, door=house.door, started_unix_s=started_unix_s).routes(),
        *OllamaPages(house.world, door=house.door, started_unix_s=started_unix_s).routes(),
        *AccountPages(
            _accounts(house, house.metrics.count_outcome), door=house.door, clock=clock, body_timeout_s=body_timeout_s
        ).routes(),
        *ResponsePages(house.responses, door=house.door).routes(),
        *batches.pages,
    ]
    routes += DocumentPage(lambda: routes).routes()
    return routes


def _accounts(house: House, count: OutcomeCounter) -> Accounts | None:
    if house.rows is None or house.tables is None:
        return None
    return open_accounts(
        house.settings,
        house.tables,
        house.rows,
        house.ledger,
        clock=house.clock,
        observers=house.observers,
        count=count,
    )
