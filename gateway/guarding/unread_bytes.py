"""What comes where a transcript should, and is no text: nobody can look at it."""

from collections.abc import Sequence

from gateway.guard import CannotSay
from gateway.guarding.client_side import ClientSide
from gateway.guarding.hearing import Hearing
from gateway.rules.guards import GuardRule


class UnreadBytes:
    """Its way to the client, where the policy file lets it pass."""

    __slots__ = ("_client", "_hearing", "_rules")

    def __init__(self, rules: Sequence[GuardRule], hearing: Hearing, client: ClientSide) -> None:
        self._rules = rules
        self._hearing = hearing
        self._client = client

    async def pour(self, data: bytes) -> None:
        """Some of it comes.

        Raises:
            GuardSilent: a guard has to look.
        """
        rules, self._rules = self._rules, ()
        for rule in rules:
            self._hearing.unheard(rule, CannotSay("it is no text"))
        await self._client.show(data, opens=True)

    async def end(self) -> None:
        """It is over."""
        await self._client.close()
