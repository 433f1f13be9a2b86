"""The month's end: what the ledger counted beside what a provider did, by day and model, differences by name."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec
from msgspec import Struct

from gateway.accounts.moments import day_of
from gateway.accounts.money import usd
from gateway.accounts.provider_usage import FIGURES, Usage, model_name
from gateway.accounts.selection import Selection
from gateway.accounts.shadow_spending import BY_DAY_AND_MODEL
from gateway.stores.tables import LedgerTables

_COUNTED = """
    SELECT CAST(floor(r.received_unix_s / 86400) AS BIGINT), a.model, count(*),
        CAST(sum(coalesce(a.prompt_tokens, 0)) AS BIGINT), CAST(sum(coalesce(a.cached_tokens, 0)) AS BIGINT),
        CAST(sum(coalesce(a.output_tokens, 0)) AS BIGINT), CAST(sum(coalesce(a.cost_pico_usd, 0)) AS BIGINT),
        count(*) FILTER (WHERE a.cost_pico_usd IS NULL), count(*) FILTER (WHERE a.estimated = 1)
    FROM requests r JOIN attempts a ON a.request_seq = r.seq
    WHERE r.received_unix_s >= :since AND r.received_unix_s < :until
        AND (CAST(:backend AS TEXT) IS NULL OR a.backend = CAST(:backend AS TEXT))
        AND (CAST(:model AS TEXT) IS NULL OR a.model = CAST(:model AS TEXT))
        AND (CAST(:tenant AS TEXT) IS NULL OR r.tenant = CAST(:tenant AS TEXT))
        AND (CAST(:route AS TEXT) IS NULL OR r.route = CAST(:route AS TEXT))
        AND coalesce(a.prompt_tokens, 0) + coalesce(a.output_tokens, 0) > 0
    GROUP BY 1, 2
"""


class Difference(Struct, frozen=True, kw_only=True):
    """One difference of a day and model.

    ``kind`` is ``missing_there`` (the provider has nothing), ``missing_here`` (the ledger has nothing), or the figure
    that differs. ``estimated`` of our attempts were counted by us, since the provider had not said: they differ first.
    """

    kind: str
    day: str
    model: str
    figure: str
    here: Decimal
    there: Decimal
    estimated: int = 0

    @property
    def by(self) -> Decimal:
        """How much more the provider counts."""
        return self.there - self.here


class Sum(Struct, frozen=True, kw_only=True):
    """A figure over all days and models."""

    figure: str
    here: Decimal
    there: Decimal


class Reconciliation(Struct, frozen=True, kw_only=True):
    """The differences, by day and model, and the sums of the figures that the provider tells."""

    object: str = "reconciliation"
    compared: tuple[str, ...]
    same: int
    differences: tuple[Difference, ...]
    sums: tuple[Sum, ...]
    unpriced_attempts: int


async def reconcile(
    tables: LedgerTables, selection: Selection, theirs: Usage, *, tolerance: Decimal = Decimal(0)
) -> Reconciliation:
    """Compares what ``selection`` of the ledger used with a provider's export. ``tolerance`` is a share of the larger.

    Raises:
        ConfigurationError: there is no ledger.
        LedgerLost: it cannot be read.
    """
    values = {**selection.values(), "since": selection.since_unix_s or 0.0}
    rows = [*await tables.rows(_COUNTED, **values), *await tables.rows(BY_DAY_AND_MODEL, **values)]
    ours: Usage = defaultdict(lambda: defaultdict(Decimal))
    estimated: dict[tuple[str, str], int] = defaultdict(int)
    unpriced = 0
    for day, model, attempts, prompt, cached, output, pico_usd, without_price, guessed in rows:
        key = day_of(day), model_name(model)
        figures = (attempts, prompt, cached, output, usd(pico_usd))
        for figure, value in zip(FIGURES, figures, strict=True):
            ours[key][figure] += Decimal(value)
        estimated[key] += guessed
        unpriced += without_price
    compared = tuple(figure for figure in FIGURES if any(figure in used for used in theirs.values()))
    found = [
        difference
        for key in sorted(ours.keys() | theirs.keys())
        for difference in _differences(key, ours, theirs, compared, tolerance, estimated[key])
    ]
    return Reconciliation(
        compared=compared,
        same=len(ours.keys() | theirs.keys()) - len({(one.day, one.model) for one in found}),
        differences=tuple(found),
        sums=tuple(Sum(figure=one, here=_sum(ours, one), there=_sum(theirs, one)) for one in compared),
        unpriced_attempts=unpriced,
    )


def _sum(usage: Usage, figure: str) -> Decimal:
    return sum((used.get(figure, Decimal(0)) for used in usage.values()), Decimal(0))


def as_text(found: Reconciliation) -> str:
    """The differences for people."""
    lines = [f"{found.same} days of a model agree; compared: {', '.join(found.compared) or 'nothing'}"]
    if "cost_usd" not in found.compared:
        lines.append("The export has no cost, so prices are not compared.")
    for one in found.differences:
        guessed = f", {one.estimated} of our attempts are estimates" if one.estimated else ""
        words = one.kind.replace("_", " ")
        figure = "" if one.kind == one.figure else f" {one.figure.replace('_', ' ')}"
        lines.append(
            f"{one.day}  {one.model}: {words}:{figure} {one.here:f} here, {one.there:f} there ({one.by:+f}{guessed})"
        )
    lines += [f"in all: {one.figure.replace('_', ' ')} {one.here:f} here, {one.there:f} there" for one in found.sums]
    if found.unpriced_attempts:
        lines.append(f"{found.unpriced_attempts} attempts here have no known price.")
    return "\n".join(lines) + "\n"


def as_json(found: Reconciliation) -> bytes:
    """The same for programs."""
    return msgspec.json.Encoder(decimal_format="number").encode(found)


def _differences(
    key: tuple[str, str],
    ours: Usage,
    theirs: Usage,
    compared: Sequence[str],
    tolerance: Decimal,
    estimated: int,
) -> Iterator[Difference]:
    here, there = ours.get(key), theirs.get(key)
    for figure in compared:
        mine = here[figure] if here is not None else Decimal(0)
        told = there.get(figure, Decimal(0)) if there is not None else Decimal(0)
        if abs(told - mine) <= tolerance * max(mine, told):
            continue
        kind = "missing_here" if here is None else "missing_there" if there is None else figure
        yield Difference(kind=kind, day=key[0], model=key[1], figure=figure, here=mine, there=told, estimated=estimated)
