"""Runs ``schemathesis`` on a served gateway, against the document that it serves itself."""

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

KEY = "sk-acme-0123456789"
POLICY = f"""
backends: {{made-up: {{use: fake}}}}
routes: {{all: {{models: ["*"], targets: [made-up]}}}}
tenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]}}}}
"""
COMMAND = Path(sys.executable).with_name("st")
REPLACED = ("positive_data_acceptance", "negative_data_rejection")
"""By ``tests.openapi.checks``, which tells why."""


async def hunt(url: str, key: str, *options: str) -> tuple[int, str]:
    """Exit code and report of a run; ``options`` are the command's own."""
    with TemporaryDirectory() as folder:  # where it keeps notes of its own
        return await _run(Path(folder), f"{url}/openapi.json", key, options)


async def _run(folder: Path, document: str, key: str, options: tuple[str, ...]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "run", document),
        *("--header", f"Authorization: Bearer {key}"),
        *("--checks", "all", "--exclude-checks", ",".join(REPLACED)),
        *("--warnings", "off", "--output-sanitize", "false", "--continue-on-failure", *options),
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(Path(__file__).with_name("checks.py")), "NO_COLOR": "1"},
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        report, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, report.decode()
