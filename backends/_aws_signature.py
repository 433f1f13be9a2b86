"""Who asks AWS: credentials out of named variables or botocore's chain, and the signature of each request.

The one place, beside the parser of event streams, that knows botocore; it is imported when a backend starts.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError

from backends._renewed import Loan, Renewed
from backends._upstream import Ask
from gateway.errors import UpstreamUnauthorised
from gateway.ports import Clock

_LIFE_S = 300.0
"""How long what the chain gives is used. botocore itself renews what ends, fifteen minutes before it does."""

logging.getLogger("botocore.auth").setLevel(logging.INFO)  # its debug lines quote the session's token

_SENT = frozenset({"authorization", "x-amz-date", "x-amz-security-token"})


class AwsAccount:
    """Signs requests to one endpoint of Bedrock.

    Args:
        address: the endpoint's base URL.
        region: of the signature.
        clock: the time until credentials are looked up again.
        fixed: credentials that never change; ``None`` for those of botocore's chain.
        profile: of AWS's configuration files, for the chain.
    """

    def __init__(
        self, address: str, region: str, *, clock: Clock, fixed: ReadOnlyCredentials | None = None, profile: str = ""
    ) -> None:
        self._address = address
        self._region = region
        self._fixed = fixed
        self._profile = profile
        self._found: Any = None
        self._renewed = Renewed(self._from_chain, clock=clock, what="AWS credentials")

    async def headers(self, ask: Ask) -> Mapping[str, str]:
        """The headers that sign ``ask``.

        Raises:
            UpstreamUnauthorised: there are no credentials.
        """
        credentials = self._fixed or await self._renewed.value()
        request = AWSRequest(method="POST", url=self._address + ask.path, data=ask.body)
        SigV4Auth(credentials, "bedrock", self._region).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items() if name.lower() in _SENT}

    async def close(self) -> None:
        """Looks up nothing any more; idempotent."""
        await self._renewed.close()

    async def _from_chain(self) -> Loan[ReadOnlyCredentials]:
        return Loan(await asyncio.to_thread(self._lookup), _LIFE_S)

    def _lookup(self) -> ReadOnlyCredentials:
        """What the chain gives: variables, files, a container's or a machine's role. It reads files and may ask AWS."""
        try:
            if self._found is None:
                self._found = botocore.session.Session(profile=self._profile or None).get_credentials()
            if self._found is not None:
                return self._found.get_frozen_credentials()
        except BotoCoreError as error:
            raise UpstreamUnauthorised(f"no AWS credentials could be had ({type(error).__name__})") from error
        raise UpstreamUnauthorised("no AWS credentials were found")


def fixed_credentials(access_key: str, secret_key: str, session_token: str = "") -> ReadOnlyCredentials:
    """Credentials that stay as they are; ``session_token`` may be empty."""
    return ReadOnlyCredentials(access_key, secret_key, session_token or None)
