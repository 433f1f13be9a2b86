"""The pages besides inference that clients of a tenant use, each behind the tenant's key."""

from collections.abc import Callable

from gateway.accounts.opening import Accounts
from gateway.batching.opening import Batches
from gateway.door import Door
from gateway.openapi.page import Page
from gateway.pages.accounts import AccountPages
from gateway.pages.responses import ResponsePages
from gateway.ports import Clock
from gateway.stores.responses import ResponseMemory


def client_pages(
    accounts: Accounts | None,
    memory: ResponseMemory,
    batches: Batches,
    *,
    door: Callable[[], Door],
    clock: Clock,
    body_timeout_s: float,
) -> list[Page]:
    """The accounts of tasks, answers asked for again, files and batches.

    ``accounts`` are ``None`` where no ledger is kept.
    """
    return [
        *AccountPages(accounts, door=door, clock=clock, body_timeout_s=body_timeout_s).routes(),
        *ResponsePages(memory, door=door).routes(),
        *batches.pages,
    ]
