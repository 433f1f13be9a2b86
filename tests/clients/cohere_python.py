"""Cohere's Python SDK: rerank by both of its clients, over the made-up backend."""

import asyncio
import sys

from tests.clients.trials import Client, try_python

PROGRAM = """
import os
import cohere

asked = {"model": "fake", "query": "What is the capital of France?", "documents": ["Paris", "Rome"]}
for path, client in (("rerank v2", cohere.ClientV2), ("rerank v1", cohere.Client)):
    answer = client(api_key="x", base_url=os.environ["ADDRESS"]).rerank(**asked)
    assert answer.meta.billed_units.search_units == 1
    print(f"{path} documents:", *(result.index for result in answer.results))
"""
CLIENT = Client(
    name="Cohere SDK for Python",
    package="cohere",
    sets='`base_url="http://127.0.0.1:8080"`',
    tried={"rerank v2": ("documents",), "rerank v1": ("documents",)},
)


async def main() -> int:
    """How much it did not say that it should have said."""
    return await try_python(CLIENT, "cohere", PROGRAM, over_fake=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
