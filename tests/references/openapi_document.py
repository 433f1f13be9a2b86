"""Makes ``docs/openapi.json``: the document that a gateway serves, for who has none running. ``make references``."""

import asyncio
import sys
import tempfile
from pathlib import Path

import httpx
import msgspec

from gateway.app import Gateway
from gateway.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def page() -> str:
    """As a gateway answers ``GET /openapi.json``, whatever its policy file says: routes are the same for all."""
    return msgspec.json.format(asyncio.run(_served()), indent=1).decode() + "\n"


async def _served() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        policy = place / "policy.yaml"
        policy.write_text("backends: {made-up: {use: fake}}\nroutes: {all: {models: ['*'], targets: [made-up]}}\n")
        gateway = Gateway(Settings(policy=policy, state_dir=place, model_dir=place, ledger="off"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gateway.asgi), base_url="http://gate") as client:
            return (await client.get("/openapi.json")).content


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
