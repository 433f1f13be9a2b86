"""The operator's side of the configuration: the environment, prefix ``HEADRACE_``. The only reader of ``os.environ``.

The platform team's side is the policy file; it names secrets by their environment variable and never holds one.
"""

import ipaddress
import os
import sys
import urllib.request
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from gateway.errors import ConfigurationError

MiB = 1024 * 1024

PREFIX = "HEADRACE_"


def _user_dir(variable: str, fallback: str) -> Path:
    """The XDG rule: the variable where it holds an absolute path, else the fallback below the home directory."""
    value = Path(os.environ.get(variable, ""))
    return (value if value.is_absolute() else Path.home() / fallback) / "headrace"


class Settings(BaseModel):
    """What the operator decides: addresses, places, limits and patience. What is not given, the environment says."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    tls_certificate: Path | None = None
    """A PEM file with the server's certificate and those between it and its authority: clients speak HTTPS then."""
    tls_key: Path | None = None
    """A PEM file with its key, where that does not stand in the same one."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that serve; one alone is its own parent."""
    policy: Path | None = None
    """The policy file; without one the embedded model answers every model name."""

    state_dir: Path = Field(default_factory=lambda: _user_dir("XDG_STATE_HOME", ".local/state"))
    model_dir: Path = Field(default_factory=lambda: _user_dir("XDG_CACHE_HOME", ".cache") / "models")
    ledger: Literal["sqlite", "off"] = "sqlite"
    ledger_days: Annotated[int, Field(ge=1)] = 90
    """How long rows stay in the ledger."""
    ledger_decisions: bool = True
    """Whether rows keep what decisions were made from and which prompts began alike, for ``explain`` and ``export``."""
    ledger_url: SecretStr | None = None
    """``postgresql://user:password@host/database``, where rows are to be there and not in a file of this machine."""
    ledger_spool_bytes: Annotated[int, Field(ge=0)] = 256 * MiB
    """What may wait on this machine's disk for a database that is away."""
    ledger_rows_waiting: Annotated[int, Field(ge=1)] = 50_000
    """How many requests may wait in memory while not even that can be written."""

    redis_url: SecretStr | None = None
    """Where the replicas of this gateway meet; without it each stands alone. See ``stores/redis_address.py``."""
    redis_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = "headrace"
    """The first part of every key, so that several gateways can use one server."""
    redis_timeout_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """How long one step may take before the server counts as lost."""
    redis_ca_file: str = ""
    redis_client_certificate: str = ""
    redis_client_key: str = ""

    max_body_bytes: Annotated[int, Field(ge=1024)] = 32 * MiB
    """Of a request body after decoding."""
    max_upload_bytes: Annotated[int, Field(ge=1024)] = 64 * MiB
    """The same of a body with files in it: sound to transcribe, pictures to edit."""
    max_uploads_held_bytes: Annotated[int, Field(ge=1024)] = 512 * MiB
    """Of all such bodies together, each of which is held until its request is over. More have to come back later."""
    max_header_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024
    max_headers: Annotated[int, Field(ge=8)] = 256
    max_depth: Annotated[int, Field(ge=4, le=500)] = 64
    """Of nesting in a request body."""
    max_messages: Annotated[int, Field(ge=1)] = 4096
    max_event_bytes: Annotated[int, Field(ge=1024)] = 16 * MiB
    """Of one server-sent event from an upstream."""
    max_answer_bytes: Annotated[int, Field(ge=1024)] = 64 * MiB
    """Of one whole answer from an upstream."""

    metrics_key: SecretStr | None = None
    """The key that opens ``/metrics``, which speaks of all tenants; their own keys do not."""

    responses_kept_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3600.0
    """How long answers of ``/v1/responses`` can be asked for again, and gone on from; zero keeps none."""

    batches: bool = True
    """Whether clients may leave files here, and batches that are run from them."""
    files_kept_s: Annotated[float, Field(ge=3600, allow_inf_nan=False)] = 30 * 86_400.0
    """How long files stay at most, those that come out of batches too."""
    max_file_bytes: Annotated[int, Field(ge=1024)] = 200 * MiB
    max_files: Annotated[int, Field(ge=1)] = 1000
    """Of one tenant."""
    max_stored_bytes: Annotated[int, Field(ge=1024)] = 2048 * MiB
    """Of all files of one tenant."""
    max_batches: Annotated[int, Field(ge=1)] = 100
    """Of one tenant, that are under way."""
    max_batch_lines: Annotated[int, Field(ge=1)] = 50_000
    batch_lines_at_once: Annotated[int, Field(ge=1, le=1024)] = 16
    """How many lines of batches one process has in flight."""
    batch_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Of the places behind a route that nobody else takes, batches take so many."""
    batch_lease_s: Annotated[float, Field(ge=0.5, le=600)] = 15.0
    """How long a batch waits for a process that was killed while it ran it, before another takes it over."""

    head_timeout_s: Annotated[float, Field(gt=0)] = 20.0
    """From a request's first byte to the end of its headers."""
    body_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    start_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """How long to wait at the start for backends that are about to be well, before anybody can connect."""
    keep_alive_s: Annotated[int, Field(ge=1)] = 75
    """How long an idle client connection stays open: longer than the usual proxy in front, which should close first."""
    drain_s: Annotated[float, Field(ge=0)] = 30.0
    """How long running answers may go on after SIGTERM."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False
    """A log line for each request; the ledger has a row for it anyway."""
    log_format: Literal["text", "json"] = "text"

    @model_validator(mode="before")
    @classmethod
    def _from_environment(cls, given: dict[str, object]) -> dict[str, object]:
        # pydantic-settings would do the same, for 5 MiB of memory.
        return {name: value for name, value in _variables().items() if name in cls.model_fields} | given

    @property
    def longest_upload_bytes(self) -> int:
        """Of a body with files in it: no less than of any other."""
        return max(self.max_upload_bytes, self.max_body_bytes)

    def check_bind(self, *, locked: bool) -> None:
        """Refuses to be reachable from elsewhere where no key is asked for.

        Raises:
            ConfigurationError: the address is not a loopback one, and nothing is locked.
        """
        if not locked and self.host not in {"127.0.0.1", "::1", "localhost"}:
            raise ConfigurationError(
                f"{self.host} can be reached from elsewhere, and no tenant has a key",
                where=f"{PREFIX}HOST",
                hint="add `tenants:` with keys to the policy file, or bind to 127.0.0.1",
            )

    def scrape_key(self) -> str | None:
        """The key that opens ``/metrics``; ``None`` where there is none."""
        return (self.metrics_key.get_secret_value() or None) if self.metrics_key is not None else None

    def secret(self, name: str) -> str | None:
        """The value of the environment variable that the policy file names; ``None`` where it is unset or empty."""
        return os.environ.get(name) or None

    @staticmethod
    def behind_proxy(url: str) -> bool:
        """Whether the usual variables (``HTTPS_PROXY``, ``NO_PROXY``...) name a proxy for ``url``.

        Loopback addresses are never behind one: it would look for them at its own place.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        proxies = urllib.request.getproxies_environment()
        if not (proxies.get(parts.scheme) or proxies.get("all")) or _is_loopback(host):
            return False
        return not urllib.request.proxy_bypass(host)

    @staticmethod
    def hub() -> dict[str, str]:
        """Where models are pulled from, and with which token: Hugging Face's own variables, which its tools know."""
        variables = {"url": "HF_ENDPOINT", "token": "HF_TOKEN"}
        given = {name: os.environ.get(variable, "").strip().rstrip("/") for name, variable in variables.items()}
        return {name: value for name, value in given.items() if value}

    @staticmethod
    def otel_variables() -> dict[str, str]:
        """OpenTelemetry's own variables, which keep the names that its specification gives them."""
        return {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}

    def otel_secrets(self) -> tuple[str, ...]:
        """The header values that go to a trace collector: its credentials are among them."""
        pairs = (
            pair for name, value in self.otel_variables().items() if "HEADERS" in name for pair in value.split(",")
        )
        return tuple(value.strip() for pair in pairs if (value := pair.partition("=")[2]).strip())


def read_settings(**overrides: object) -> Settings:
    """Settings from the environment; ``overrides`` that are not ``None`` (command-line options) go first.

    Raises:
        ConfigurationError: naming the variable, never its value.
    """
    unknown = sorted(name for name in _variables() if name not in Settings.model_fields)
    if unknown:
        import difflib  # noqa: PLC0415  # of use only where something is wrong

        known = sorted(PREFIX + field.upper() for field in Settings.model_fields)
        wrong = f"{PREFIX}{unknown[0].upper()}"
        near = difflib.get_close_matches(wrong, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}"
        raise ConfigurationError(f"{wrong} is no setting", hint=hint)
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise ConfigurationError(f"{name}: {first['msg']}") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost" or host.endswith(".localhost")


def _variables() -> dict[str, str]:
    """Our variables, by the names of the settings."""
    found = {name.upper(): value for name, value in os.environ.items()}
    return {name.removeprefix(PREFIX).lower(): value for name, value in found.items() if name.startswith(PREFIX)}


def event_loop() -> str:
    """Which event loop uvicorn should run: uvloop where there is one."""
    return "asyncio" if sys.platform == "win32" else "uvloop"
