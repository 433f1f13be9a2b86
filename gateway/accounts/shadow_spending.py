"""What shadows cost: copies of requests, which are in no request's and no task's cost, and on the provider's bill."""

from decimal import Decimal

from msgspec import Struct

from gateway.accounts.money import usd
from gateway.accounts.selection import Selection
from gateway.stores.tables import LedgerTables

_WHERE = """
    WHERE occasion = 'shadow' AND received_unix_s >= :since AND received_unix_s < :until
        AND (CAST(:backend AS TEXT) IS NULL OR backend = CAST(:backend AS TEXT))
        AND (CAST(:model AS TEXT) IS NULL OR model = CAST(:model AS TEXT))
        AND (CAST(:tenant AS TEXT) IS NULL OR tenant = CAST(:tenant AS TEXT))
        AND (CAST(:route AS TEXT) IS NULL OR route = CAST(:route AS TEXT))
"""
_IN_ALL = f"""
    SELECT count(*), count(*) FILTER (WHERE success = 1), count(*) FILTER (WHERE success = 0),
        CAST(sum(coalesce(cost_pico_usd, 0)) AS BIGINT), count(*) FILTER (WHERE cost_pico_usd IS NULL)
    FROM judged_answers {_WHERE}
"""  # noqa: S608  # constants of this page

BY_DAY_AND_MODEL = f"""
    SELECT CAST(floor(received_unix_s / 86400) AS BIGINT), model, count(*),
        CAST(sum(coalesce(prompt_tokens, 0)) AS BIGINT), CAST(sum(coalesce(cached_tokens, 0)) AS BIGINT),
        CAST(sum(coalesce(output_tokens, 0)) AS BIGINT), CAST(sum(coalesce(cost_pico_usd, 0)) AS BIGINT),
        count(*) FILTER (WHERE cost_pico_usd IS NULL), count(*) FILTER (WHERE estimated = 1)
    FROM judged_answers {_WHERE} AND coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) > 0
    GROUP BY 1, 2
"""  # noqa: S608  # likewise
"""In the columns in which attempts are counted for a provider's bill."""


class ShadowSpending(Struct, frozen=True, kw_only=True):
    """The copies, how their answers were judged, and what they cost: ``None`` where some have no known price."""

    copies: int
    passed: int
    failed: int
    cost_usd: Decimal | None
    priced_cost_usd: Decimal


async def shadow_spending(tables: LedgerTables, selection: Selection) -> ShadowSpending:
    """What the selected requests' shadows cost; ``backend`` and ``model`` are those that got the copies.

    Raises:
        ConfigurationError: there is no ledger, or none of this version.
        LedgerLost: it cannot be read.
    """
    ((copies, passed, failed, pico_usd, unpriced),) = await tables.rows(
        _IN_ALL, **selection.values(), since=selection.since_unix_s or 0.0
    )
    spent = usd(pico_usd or 0)
    return ShadowSpending(
        copies=copies, passed=passed, failed=failed, cost_usd=None if unpriced else spent, priced_cost_usd=spent
    )
