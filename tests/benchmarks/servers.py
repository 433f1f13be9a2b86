"""What is measured: ``headrace serve`` as an operator would run it, and how any server here is asked."""

import hashlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from programs import HERE, HOST, free_port, stop, wait_until_up

ROOT = HERE.parents[1]
API_KEY = "sk-benchmark-0123456789abcdef"
CHAT_PATH = "/v1/chat/completions"
KEY_HEADER = f"authorization: Bearer {API_KEY}"

# One priced backend behind a key. Everything that a route has by default is on: forecast, admission, three filters,
# five cost terms with the prefix index, and the ledger in SQLite.
_POLICY = """
backends:
  upstream:
    use: openai_compatible
    transport: {transport}
    base_url: http://{host}:{upstream_port}/v1
    models:
      mock-model: {{context_tokens: 131072, price: {{input_usd_per_mtok: 0.59, output_usd_per_mtok: 0.79}}}}
routes:
  default:
    models: ["*"]
    targets: [upstream]
    classify: {classify}
    admit: {{use: fixed_concurrency, limit: {limit}, queue: {queue}, wait_s: 60}}
tenants:
  benchmark: {{keys_sha256: [{key_sha256}]}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs: where, as which process, and how long it took to answer its first request."""

    name: str
    port: int
    pid: int
    start_up_s: float
    state: Path
    path: str = CHAT_PATH
    model: str = "mock-model"
    headers: tuple[str, ...] = (KEY_HEADER,)


def ask(server: Server) -> None:
    """Sends it one small chat request.

    Raises:
        OSError: nobody listens, or the answer is not 200.
    """
    body = json.dumps({"model": server.model, "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = dict(header.split(": ", 1) for header in (*server.headers, "content-type: application/json"))
    connection = http.client.HTTPConnection(HOST, server.port, timeout=20)
    try:
        connection.request("POST", server.path, body, headers)
        response = connection.getresponse()
        text = response.read(500)
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise OSError(f"it answered {response.status}: {text!r}")


def policy_text(
    upstream_port: int, *, limit: int, queue: int, transport: str = "own", classify: str = "learned_length"
) -> str:
    """The policy file of the benchmarks; ``limit`` and ``queue`` are those of the route's admission."""
    key_sha256 = hashlib.sha256(API_KEY.encode()).hexdigest()
    return _POLICY.format(
        host=HOST,
        upstream_port=upstream_port,
        limit=limit,
        queue=queue,
        transport=transport,
        classify=classify,
        key_sha256=key_sha256,
    )


@contextmanager
def run_headrace(
    folder: Path,
    upstream_port: int,
    *,
    limit: int = 1024,
    queue: int = 1024,
    transport: str = "own",
    classify: str = "learned_length",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Runs ``headrace serve`` from this working tree; its policy, ledger and log are files in ``folder``.

    ``limit`` and ``queue`` are of the route's admission, ``classify`` is its forecast, ``transport`` the backend's.

    Raises:
        RuntimeError: it did not start, or did not stop with exit code 0.
    """
    policy, port = folder / "policy.yaml", free_port()
    policy.write_text(policy_text(upstream_port, limit=limit, queue=queue, transport=transport, classify=classify))
    ours = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_METRICS_KEY": API_KEY, **(environment or {})}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HEADRACE_"))}
    command = [sys.executable, "-m", "gateway", "serve", str(policy), "--port", str(port)]
    with (folder / "headrace.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=inherited | ours, stderr=log)
    yield from _running("headrace", process, port, "/healthz", folder / "state")


def _running(name: str, process: "subprocess.Popen[bytes]", port: int, path: str, state: Path) -> Iterator[Server]:
    try:
        start_up_s = wait_until_up(process, port, path)
        yield Server(name=name, port=port, pid=process.pid, start_up_s=start_up_s, state=state)
    finally:
        exit_code = stop(process)
    if exit_code:
        raise RuntimeError(f"{name} ended with {exit_code} when it was told to stop")
