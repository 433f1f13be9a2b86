"""The other gateways of the overhead benchmark, as data: what each is installed from, and how it is started.

Each stands alone before the one upstream, as its documentation says for production: without a database, without logs
of requests, with one worker. Braces in commands, files and the environment are filled in when it starts: ``{home}`` is
where it was installed, ``{folder}`` a fresh folder, ``{port}`` where it shall listen, ``{other_port}`` a second one for
its own use, ``{upstream}`` the upstream's address without scheme.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from servers import API_KEY, CHAT_PATH, KEY_HEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of them. ``files`` are written before it starts.

    ``python`` is the interpreter of its virtual environment. ``tells_port`` says that it picks its port itself and
    writes it to ``{folder}/port``. ``offers`` says in a few words what it does with a request, for the table.
    """

    name: str
    written_in: str
    offers: str
    debian: str = ""
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    npm_overrides: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT_PATH
    model: str = "mock-model"
    headers: tuple[str, ...] = ()
    tells_port: bool = False


# As bare as it gets: no log, no buffering of answers, connections to the upstream kept open.
_NGINX = """
worker_processes 1; daemon off; error_log stderr warn; pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 256k; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  keepalive_requests 1000000000;
  upstream up {{ server {upstream}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""

_TENSORZERO = """
[gateway]
observability.enabled = false
disable_pseudonymous_usage_analytics = true

[models.mock-model]
routing = ["upstream"]

[models.mock-model.providers.upstream]
type = "openai"
model_name = "mock-model"
api_base = "http://{upstream}/v1/"
api_key_location = "none"
"""

# The gateway itself, in Rust, is inside the wheel of its Python client; it listens on a port of its own choice.
_TENSORZERO_START = """
import signal, sys, urllib.parse
import tensorzero

gateway = tensorzero._start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
with open(sys.argv[2], "w") as file:
    file.write(str(urllib.parse.urlsplit(gateway.base_url).port))
signal.pause()
"""

_LITELLM = """
model_list:
  - model_name: mock-model
    litellm_params: {{model: openai/mock-model, api_base: "http://{upstream}/v1", api_key: sk-upstream}}
general_settings: {{master_key: API_KEY, disable_spend_logs: true}}
litellm_settings: {{telemetry: false, num_retries: 0}}
router_settings: {{num_retries: 0}}
""".replace("API_KEY", API_KEY)

PEERS = (
    Peer(
        name="nginx",
        written_in="C",
        offers="bare reverse proxy",
        debian="nginx",
        command=("nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"),
        files={"nginx.conf": _NGINX},
    ),
    Peer(
        name="vllm-router",
        written_in="Rust",
        offers="cache-aware routing, metrics",
        pip=("vllm-router==0.1.17",),
        command=(
            *("{home}/bin/python", "-m", "vllm_router.launch_router", "--worker-urls", "http://{upstream}"),
            *("--host", "127.0.0.1", "--port", "{port}", "--prometheus-port", "{other_port}", "--log-level", "error"),
        ),
    ),
    Peer(
        name="sglang-router",
        written_in="Rust",
        offers="cache-aware routing, metrics",
        pip=("sglang-router==0.3.2",),
        command=(
            *("{home}/bin/python", "-m", "sglang_router.launch_router", "--worker-urls", "http://{upstream}"),
            *("--host", "127.0.0.1", "--port", "{port}", "--prometheus-port", "{other_port}", "--log-level", "error"),
        ),
    ),
    Peer(
        name="tensorzero",
        written_in="Rust",
        offers="translation, usage, metrics",
        pip=("tensorzero==2026.6.0",),
        command=("{home}/bin/python", "{folder}/start.py", "{folder}/tensorzero.toml", "{folder}/port"),
        files={"tensorzero.toml": _TENSORZERO, "start.py": _TENSORZERO_START},
        path="/openai/v1/chat/completions",
        model="tensorzero::model_name::mock-model",
        tells_port=True,
    ),
    Peer(
        name="production-stack",
        written_in="Python",
        offers="round-robin routing, metrics",
        pip=("vllm-router @ git+https://github.com/vllm-project/production-stack@vllm-stack-0.1.11",),
        python="python3.12",
        command=(
            *("{home}/bin/vllm-router", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "error"),
            *("--service-discovery", "static", "--static-backends", "http://{upstream}"),
            *("--static-models", "mock-model", "--static-model-types", "chat", "--routing-logic", "roundrobin"),
        ),
    ),
    Peer(
        name="portkey",
        written_in="TypeScript",
        offers="translation",
        npm=("@portkey-ai/gateway@1.15.2",),
        # Its range allows 1.19, with which each of its streams fails.
        npm_overrides={"@hono/node-server": "1.13.8"},
        command=(
            *("node", "{home}/node_modules/@portkey-ai/gateway/build/start-server.js"),
            *("--port={port}", "--headless"),
        ),
        environment={"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1"},
        headers=(
            "x-portkey-provider: openai",
            "x-portkey-custom-host: http://{upstream}/v1",
            "authorization: Bearer sk-upstream",
        ),
    ),
    Peer(
        name="litellm",
        written_in="Python",
        offers="key check, translation, usage, cost",
        pip=("litellm[proxy]==1.108.7",),
        command=(
            *("{home}/bin/litellm", "--config", "{folder}/litellm.yaml", "--host", "127.0.0.1", "--port", "{port}"),
            *("--num_workers", "1"),
        ),
        files={"litellm.yaml": _LITELLM},
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_TELEMETRY": "False",
        },
        headers=(KEY_HEADER,),
    ),
)
