"""``headrace export``: the ledger's served requests as a trace that ``headrace replay`` plays.

One line a request, in Mooncake's format and with what the ledger knows besides. No prompts: the ledger has none.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gateway.errors import ConfigurationError
from gateway.learning.kept_state import LEDGER_FILE
from gateway.settings import read_settings
from gateway.stores.ledger_reader import ServedRequest, served_requests

_BLOCK_TOKENS = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("--ledger", type=Path, help="the ledger's file; by default that of the state directory")
    parser.add_argument("--since", type=_moment, help="from this day or moment on, as 2026-11-30 or 2026-11-30T08:00")


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows; 0 where there are any, 1 where there are none."""
    path = arguments.ledger or read_settings().state_dir / LEDGER_FILE
    written = 0
    for request in served_requests(path, since_unix_s=arguments.since):
        sys.stdout.write(msgspec.json.encode(_row(request)).decode() + "\n")
        written += 1
    if not written:
        raise ConfigurationError("no request was served", file=str(path))
    return 0


def _row(request: ServedRequest) -> dict[str, Any]:
    blocks = -(-request.prompt_tokens // _BLOCK_TOKENS)
    return {
        "timestamp": round(request.received_unix_s * 1000),
        "input_length": request.prompt_tokens,
        "output_length": request.output_tokens,
        # A block is 2 KB; where a token is longer than four bytes, there are more of them than the engine has.
        "hash_ids": request.blocks[:blocks],
        "model": request.model,
        "tenant": request.tenant,
        "route": request.route,
        "ttft_s": request.ttft_s,
        "cost_usd": request.cost_usd,
    }


def _moment(text: str) -> float:
    """Seconds since the epoch; without a zone, it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day or a moment, and is {text!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
