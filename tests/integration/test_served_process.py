"""What waits for a served process waits for nothing that can no longer come."""

from typing import Any

import pytest


async def test_a_gateway_that_dies_at_its_start_is_told_at_once(start_process: Any) -> None:
    """With the end of its log, which says why."""
    backend = {"use": "openai_compatible", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "KEY_THAT_NOBODY_SET"}
    served = await start_process({"backends": {"up": backend}})
    with pytest.raises(AssertionError, match=r"(?s)gone without 'running on'.*KEY_THAT_NOBODY_SET"):
        await served.until_logged("running on", within_s=3600)
