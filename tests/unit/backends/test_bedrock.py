import sys
from decimal import Decimal
from typing import Any

import pytest

from backends._aws_errors import from_aws_refusal
from backends._http import Refusal, UpstreamNotFound
from backends.bedrock import Bedrock
from gateway.errors import (
    ConfigurationError,
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnauthorised,
)
from gateway.rules.plugins import build


@pytest.mark.parametrize(
    "fields",
    [
        {"access_key_env": "A"},
        {"session_token_env": "A"},
        {"profile": "work", "api_key_env": "A"},
        {"headers": {"authorization": "x"}},
        {"access_key_env": "not a name", "secret_key_env": "B"},
        {"base_url": "ftp://x"},
        {"keep_alive_s": 0},
    ],
)
def test_who_asks_is_said_in_one_way(fields: dict[str, Any]) -> None:
    """And completely."""
    with pytest.raises(ValueError, match="`"):
        Bedrock(region="eu-central-1", **fields)


def test_its_needs_are_the_variables_that_it_names(tmp_path: Any) -> None:
    """Those of botocore's chain are not known before it looks."""
    named = {"access_key_env": "A_A", "secret_key_env": "B_B", "session_token_env": "C_C"}
    backend = Bedrock(region="eu-central-1", headers={"x-team": {"env": "D_D"}}, **named)
    assert ("D_D", "A_A", "B_B", "C_C") == backend.needs(tmp_path).environment
    assert () == Bedrock(region="eu-central-1").needs(tmp_path).environment


def test_the_caches_price_follows_from_the_inputs() -> None:
    """As everywhere with Claude."""
    models = {"m": {"price": {"input_usd_per_mtok": 3, "output_usd_per_mtok": 15}}}
    spec = {"use": "bedrock", "region": "eu-central-1", "models": models}
    price = build("backend", spec, where="backends.x").facts().models["m"].price
    assert (Decimal("0.3"), Decimal("3.75")) == (price.cached_input_usd_per_mtok, price.cache_write_usd_per_mtok)


async def test_without_botocore_it_says_what_to_install(surroundings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not with the first request."""
    for name in [name for name in sys.modules if name.startswith(("botocore", "backends._aws_s", "backends._aws_ev"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(ConfigurationError) as caught:
        await Bedrock(region="eu-central-1").start("b", surroundings())
    assert "headrace[bedrock]" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "kind", "words", "expected"),
    [
        (400, "ThrottlingException", "slow", UpstreamRateLimited),
        (429, "ThrottlingException:http://x/", "slow", UpstreamRateLimited),
        (429, "ModelNotReadyException", "wait", UpstreamRateLimited),
        (400, "ServiceQuotaExceededException", "quota", UpstreamRateLimited),
        (400, "ValidationException", "bad field", UpstreamRefused),
        (400, "ValidationException", "Input is too long for requested model.", UpstreamContextExceeded),
        (400, "ExpiredTokenException", "token of arn:aws:iam::1", UpstreamUnauthorised),
        (403, "AccessDeniedException", "arn:aws:iam::1", UpstreamUnauthorised),
        (404, "ResourceNotFoundException", "no model", UpstreamNotFound),
        (408, "ModelTimeoutException", "slow", UpstreamTimeout),
        (424, "ModelErrorException", "broke", UpstreamFailed),
        (500, "InternalServerException", "broke", UpstreamFailed),
        (503, "OfTomorrowException", "who knows", UpstreamFailed),
    ],
)
def test_refusals_by_their_exception(status: int, kind: str, words: str, expected: type[UpstreamError]) -> None:
    """The status has to do where the name is unknown; of our account nothing is told."""
    refusal = Refusal(status=status, body=b'{"message":"%b"}' % words.encode(), retry_after_s=2.0, kind=kind)
    error = from_aws_refusal(refusal, ())
    assert expected is type(error)
    assert (kind.partition(":")[0], 2.0, status) == (error.upstream_code, error.retry_after_s, error.upstream_status)
    assert "arn:" not in str(error)
