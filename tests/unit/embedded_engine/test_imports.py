import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["messages", "client", "models", "pull", "command", "settings"])
def test_a_gateway_may_import_it_where_no_engine_is_installed(module: str) -> None:
    """Neither numpy, nor jinja2, nor a kernel is needed to speak with an engine or to name a model."""
    code = (
        "import sys\n"
        "for name in ('numpy', 'jinja2', 'ik_llama_cpp', 'xllamacpp'): sys.modules[name] = None\n"
        f"import embedded_engine.{module}"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert b"" == result.stderr
