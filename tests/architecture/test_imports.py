"""What an import loads, asked of a fresh interpreter. Who may import whom is import-linter's: ``make quick``."""

import subprocess
import sys

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


def test_a_provider_does_not_load_its_neighbours() -> None:
    """Whoever uses one kind of backend pays for that one."""
    for provider in PROVIDERS[:2]:
        assert set() == _loaded_by(provider) & set(PROVIDERS) - {provider}


def test_the_engine_can_be_used_on_its_own() -> None:
    """It knows nothing of gateways, servers and policies."""
    loaded = _loaded_by("embedded_engine.engine")
    unwanted = ("gateway", "policies", "backends", "starlette", "uvicorn", "httpx", "pydantic", "opentelemetry")
    assert [] == sorted(name for name in loaded if name.startswith(unwanted))
