import logging
import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from backends._aws_signature import AwsAccount, fixed_credentials
from backends._upstream import Ask
from gateway.errors import UpstreamUnauthorised

ADDRESS = "https://bedrock-runtime.eu-central-1.amazonaws.com"
MODEL = "arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.x-v1%3A0"
ASK = Ask(path=f"/model/{MODEL}/converse", body=b'{"messages":[]}', headers={"accept": "x"}, streamed=False)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without AWS credentials, which is on nobody's cloud."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


async def test_the_signature_is_that_of_awss_own_client(hand_clock: Any) -> None:
    """Of the escaped path, the body and the session's token, at the time that the header tells."""
    account = AwsAccount(ADDRESS, "eu-central-1", clock=hand_clock, fixed=fixed_credentials("AKID", "secret", "token"))
    headers = await account.headers(ASK)
    assert {"authorization", "x-amz-date", "x-amz-security-token"} == headers.keys()
    request = AWSRequest(method="POST", url=ADDRESS + ASK.path, data=ASK.body)
    request.headers["X-Amz-Date"] = headers["x-amz-date"]
    request.headers["X-Amz-Security-Token"] = "token"
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(ReadOnlyCredentials("AKID", "secret", "token"), "bedrock", "eu-central-1")
    canonical = signer.canonical_request(request)
    assert f"/model/{MODEL.replace('%', '%25')}/converse" in canonical
    expected = signer.signature(signer.string_to_sign(request, canonical), request)
    assert re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKID/\d{8}/eu-central-1/bedrock/aws4_request, "
        rf"SignedHeaders=host;x-amz-date;x-amz-security-token, Signature={expected}",
        headers["authorization"],
    )


async def test_without_a_session_there_is_no_token(hand_clock: Any) -> None:
    """An access key that stays has none."""
    account = AwsAccount(ADDRESS, "eu-central-1", clock=hand_clock, fixed=fixed_credentials("AKID", "secret", ""))
    assert {"authorization", "x-amz-date"} == (await account.headers(ASK)).keys()


@pytest.mark.usefixtures("nowhere")
async def test_the_chain_finds_what_awss_tools_find(
    hand_clock: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A profile of a file here; it is looked up once, and again after minutes, beside the path."""
    (tmp_path / "AWS_SHARED_CREDENTIALS_FILE").write_text(
        "[work]\naws_access_key_id = FROMFILE\naws_secret_access_key = s\n"
    )
    sessions: list[Any] = []
    original = botocore.session.Session.get_credentials
    monkeypatch.setattr(
        botocore.session.Session, "get_credentials", lambda self: sessions.append(self) or original(self)
    )
    account = AwsAccount(ADDRESS, "eu-central-1", clock=hand_clock, profile="work")
    for _ in range(3):
        assert "Credential=FROMFILE/" in (await account.headers(ASK))["authorization"]
        hand_clock.advance(250)
    await account.close()
    assert 1 == len(sessions)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("profile", ["", "not-there"])
async def test_no_credentials_is_no_fault_of_the_clients(hand_clock: Any, profile: str) -> None:
    """Another backend may serve."""
    account = AwsAccount(ADDRESS, "eu-central-1", clock=hand_clock, profile=profile)
    with pytest.raises(UpstreamUnauthorised, match="AWS credentials"):
        await account.headers(ASK)


async def test_no_token_is_in_the_log(hand_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Though botocore would write what it signs, at its most talkative."""
    account = AwsAccount(ADDRESS, "eu-central-1", clock=hand_clock, fixed=fixed_credentials("AKID", "s", "canary-1"))
    with caplog.at_level(logging.DEBUG):
        await account.headers(ASK)
    assert "canary-1" not in caplog.text
