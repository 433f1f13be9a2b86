"""What is measured: ``headrace serve`` as an operator would run it, and nginx as a bare reverse proxy beside it."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from programs import HERE, HOST, free_port, stop, wait_until_up

ROOT = HERE.parents[1]
API_KEY = "sk-benchmark-0123456789abcdef"
KEY_HEADER = f"authorization: Bearer {API_KEY}"

# One priced backend behind a key. Everything that a route has by default is on: forecast, admission, three filters,
# five cost terms with the prefix index, and the ledger in SQLite.
_POLICY = """
backends:
  upstream:
    use: openai_compatible
    base_url: http://{host}:{upstream_port}/v1
    models:
      mock-model: {{context_tokens: 131072, price: {{input_usd_per_mtok: 0.59, output_usd_per_mtok: 0.79}}}}
routes:
  default:
    models: ["*"]
    targets: [upstream]
    admit: {{use: fixed_concurrency, limit: {limit}, queue: {queue}, wait_s: 60}}
tenants:
  benchmark: {{keys_sha256: [{key_sha256}]}}
"""

# As bare as it gets: no log, no buffering of answers, connections to the upstream kept open.
_NGINX = """
worker_processes 1; daemon off; error_log stderr warn; pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 256k; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  keepalive_requests 1000000000;
  upstream up {{ server {host}:{upstream_port}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen {host}:{port} backlog=4096;
    location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs: where, as which process, and how long it took to answer its first request."""

    name: str
    port: int
    pid: int
    start_up_s: float
    state: Path


class Absent(Exception):
    """A peer cannot be run here; the text says why."""


@contextmanager
def run_headrace(
    folder: Path,
    upstream_port: int,
    *,
    limit: int = 1024,
    queue: int = 1024,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Runs ``headrace serve`` from this working tree; its policy, ledger and log are files in ``folder``.

    ``limit`` and ``queue`` are those of the route's admission.

    Raises:
        RuntimeError: it did not start, or did not stop with exit code 0.
    """
    policy, port = folder / "policy.yaml", free_port()
    key_sha256 = hashlib.sha256(API_KEY.encode()).hexdigest()
    policy.write_text(
        _POLICY.format(host=HOST, upstream_port=upstream_port, limit=limit, queue=queue, key_sha256=key_sha256)
    )
    ours = {"HEADRACE_STATE_DIR": str(folder / "state"), **(environment or {})}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HEADRACE_"))}
    command = [sys.executable, "-m", "gateway", "serve", str(policy), "--port", str(port)]
    with (folder / "headrace.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=inherited | ours, stderr=log)
    yield from _running("headrace", process, port, "/healthz", folder / "state")


@contextmanager
def run_nginx(folder: Path, upstream_port: int) -> Iterator[Server]:
    """Runs nginx before the upstream.

    Raises:
        Absent: it is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise Absent("nginx is not installed")
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, host=HOST, upstream_port=upstream_port, port=port))
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([program, "-p", folder, "-c", configuration], stderr=log)
    yield from _running("nginx", process, port, "/", folder)


def _running(name: str, process: "subprocess.Popen[bytes]", port: int, path: str, state: Path) -> Iterator[Server]:
    try:
        start_up_s = wait_until_up(process, port, path)
        yield Server(name=name, port=port, pid=process.pid, start_up_s=start_up_s, state=state)
    finally:
        exit_code = stop(process)
    if exit_code:
        raise RuntimeError(f"{name} ended with {exit_code} when it was told to stop")
