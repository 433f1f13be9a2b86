"""A long hunt; the suite has a short one. ``python -m tests.openapi --examples 300 --seed 7``, or ``make hunt``.

Ends with 1 where anything was found, and tells how to see it again.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.integration.served_process import serve_process
from tests.openapi.hunt import KEY, POLICY, hunt


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=300, help="made up for each route, besides those of its schema")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    return asyncio.run(_hunt(parser.parse_args()))


async def _hunt(asked: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        async with serve_process(policy, {"HEADRACE_METRICS_KEY": KEY}) as served:
            port = int((await served.until_logged(r"running on http://127\.0\.0\.1:(\d+)"))[1])
            options = ("--max-examples", str(asked.examples), "--seed", str(asked.seed))
            code, report = await hunt(f"http://127.0.0.1:{port}", KEY, *options)
    sys.stdout.write(report)
    return code


if __name__ == "__main__":
    sys.exit(main())
