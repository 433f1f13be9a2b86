"""Whole gateways over a policy file on disk, for tests of what is around the pipeline."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.settings import Settings


class Site:
    """A gateway and its policy file."""

    def __init__(self, folder: Path, clock: Any, **settings: Any) -> None:
        self.file = folder / "policy.yaml"
        self.folder = folder
        self.clock = clock
        self.settings = {"ledger": "off", **settings}

    def gateway(self, text: str) -> Gateway:
        """A gateway over the text of a policy file, with nothing started."""
        self.file.write_text(text)
        settings = Settings(policy=self.file, state_dir=self.folder, model_dir=self.folder, **self.settings)
        return Gateway(settings, clock=self.clock)

    @asynccontextmanager
    async def running(self, text: str) -> AsyncIterator[Gateway]:
        """The same, started, and closed at the end."""
        gateway = self.gateway(text)
        await gateway.start()
        try:
            yield gateway
        finally:
            await gateway.close()


@pytest.fixture
def make_site(tmp_path: Path, hand_clock: Any) -> Callable[..., Site]:
    """A place for a gateway, on a clock that the test turns."""
    return lambda **settings: Site(tmp_path, hand_clock, **settings)


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """The usual one."""
    return make_site()
