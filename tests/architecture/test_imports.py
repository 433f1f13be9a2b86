"""What an import loads, asked of a fresh interpreter. Who may import whom is import-linter's: ``make quick``."""

import subprocess
import sys
from pathlib import Path

import pytest

PROVIDERS = ("backends.fake", "backends.openai_compatible", "backends.embedded")


def _loaded_by(module: str) -> set[str]:
    """The names of all modules that are there after ``import module`` and were not before."""
    program = f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["gateway.types", "gateway.conversation", "gateway.errors", "gateway.ports"])
def test_the_vocabulary_needs_the_standard_library_and_structs_only(module: str) -> None:
    """Policies and backends share these words without sharing anything else."""
    foreign = {name.partition(".")[0] for name in _loaded_by(module)} - sys.stdlib_module_names
    foreign -= {"gateway", "msgspec", "typing_extensions"}  # the last is msgspec's, where it is installed
    assert set() == foreign


def test_the_application_loads_no_choice_before_a_policy_file_names_it() -> None:
    """No provider, no policy, no engine, and no SDK of OpenTelemetry: they cost memory and start-up time."""
    loaded = _loaded_by("gateway.app")
    unwanted = ("policies", "backends", "embedded_engine", "httpx", "opentelemetry.sdk", "opentelemetry.exporter")
    assert [] == sorted(name for name in loaded if name.startswith(unwanted))


def test_a_plain_gateway_loads_nothing_that_few_are_asked_for(tmp_path: Path) -> None:
    """One provider over HTTP and a ledger: no page, batch or report, no other library's client, nothing for workers."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "backends:\n"
        "  up: {use: openai_compatible, base_url: 'http://127.0.0.1:9/v1', models: {m: {}}}\n"
        "routes:\n"
        "  all: {models: ['*'], targets: [up]}\n"
    )
    program = (
        "import sys; from pathlib import Path; import gateway.commands.serve; from gateway.app import Gateway;"
        f"from gateway.settings import Settings; folder = Path({str(tmp_path)!r});"
        "Gateway(Settings(policy=folder / 'policy.yaml', state_dir=folder)); print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    unwanted = (
        *("gateway.accounts", "gateway.openapi", "gateway.replay", "gateway.process.workers", "gateway.stores.replica"),
        *("asyncpg", "h2", "httpx", "opentelemetry", "redis", "requests", "sqlalchemy", "tenacity", "urllib3"),
    )
    assert "backends.openai_compatible" in loaded
    assert [] == sorted(name for name in loaded if name.startswith(unwanted))
    assert {"gateway.batching", "gateway.batching.place"} == {name for name in loaded if "batching" in name}


def test_a_provider_does_not_load_its_neighbours() -> None:
    """Whoever uses one kind of backend pays for that one."""
    for provider in PROVIDERS[:2]:
        assert set() == _loaded_by(provider) & set(PROVIDERS) - {provider}


def test_the_engine_can_be_used_on_its_own() -> None:
    """It knows nothing of gateways, servers and policies."""
    loaded = _loaded_by("embedded_engine.engine")
    unwanted = ("gateway", "policies", "backends", "starlette", "uvicorn", "httpx", "pydantic", "opentelemetry")
    assert [] == sorted(name for name in loaded if name.startswith(unwanted))
