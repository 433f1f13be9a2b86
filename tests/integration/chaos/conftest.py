"""Starts the gateways that things are done to, and the clients that ask them meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.chaos.fronts import KEY, Front, Start, Traffic
from tests.integration.served_process import serve_process


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a gateway; with the name of one that has died, on what that has left behind."""
    async with AsyncExitStack() as stack:

        async def begin(policy: Mapping[str, Any], name: str = "a", **environment: str) -> Front:
            file = tmp_path / name / "policy.yaml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(yaml.safe_dump(dict(policy)))
            return Front(
                await stack.enter_async_context(serve_process(file, {"HEADRACE_METRICS_KEY": KEY, **environment}))
            )

        yield begin


@pytest.fixture
async def traffic() -> AsyncIterator[Callable[[Iterable[Front], bytes, int], Traffic]]:
    """Has so many clients ask each gateway, until the test is over at the latest."""
    begun: list[Traffic] = []

    def begin(fronts: Iterable[Front], body: bytes, clients: int) -> Traffic:
        made = Traffic()
        made.tasks += [asyncio.create_task(made.client(front, body)) for front in fronts for _ in range(clients)]
        begun.append(made)
        return made

    yield begin
    tasks = [task for made in begun for task in made.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
