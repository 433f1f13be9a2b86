"""How busy a server says it is, and what of that is the work of others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends._presets import preset_named
from backends._served_load import gauge_sum
from gateway.rules.plugins import build

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {odd} name"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1e1
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 90.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
"""
SGLANG = 'sglang:num_running_reqs{model_name="m"} 8\nsglang:num_queue_reqs{model_name="m"} 4.0\n'
LLAMA = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 46 1700000000\nllamacpp:n_busy_slots 3.9\n"


@pytest.mark.parametrize(
    ("preset", "text", "expected"), [("vllm", VLLM, 15), ("sglang", SGLANG, 12), ("llama_server", LLAMA, 47)]
)
def test_each_server_says_it_by_its_own_names(preset: str, text: str, expected: int) -> None:
    """Running and waiting, over all of its engines and models."""
    assert expected == gauge_sum(text, preset_named(preset).gauges)


@pytest.mark.parametrize("value", ["NaN", "-3", "+Inf", "1e300", "x", ""])
def test_what_is_no_number_of_requests_is_none(value: str) -> None:
    """It would keep everybody away."""
    assert 0 == gauge_sum(f"busy {value}\n", {"busy"})


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    """Nobody knows what stands at that address."""
    assert 0 <= gauge_sum(text, {"busy"})


@pytest.mark.parametrize("fields", [{"preset": "vllm", "load_every_s": -1}, {"preset": "openai", "load_every_s": 1}])
def test_only_servers_with_known_gauges_are_asked(fields: dict[str, Any]) -> None:
    """A mistake is named."""
    with pytest.raises(Exception, match="load_every_s"):
        build("backend", {"use": "openai_compatible", "models": ["m"], **fields}, where="backends.a")
