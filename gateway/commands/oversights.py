"""What a policy file may say, and hardly anybody means."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from gateway.card import Card
from gateway.limits.limit import Measure
from gateway.limits.refusal import words
from gateway.prices.price_book import PriceBook
from gateway.rules.cards import cards_of
from gateway.rules.route import Route, Target
from gateway.rules.tenancy import Tenancy
from gateway.rules.world import World


def oversights(world: World, book: PriceBook, *, now_unix_s: float) -> tuple[str, ...]:
    """A sentence for each, in the order of the file."""
    routes = world.routes
    found = [sentence for at, route in enumerate(routes) for sentence in _of_route(route, routes[:at], world)]
    ways = [one for route in routes for one in _ways(route)]
    used = {target.backend for way in ways for target in way.targets}
    unused = (f"backends.{name}: no route uses it" for name in world.backends if name not in used)
    return (
        *found,
        *unused,
        *_expired(world.tenancy, now_unix_s),
        *_without_price(world, book),
        *_idle_shadows(world, book),
        *_blind_limits(world, book),
        *_never_enough(world),
    )


def _ways(route: Route) -> Iterator[Route]:
    """The route, and those that it has for what goes elsewhere."""
    yield route
    if route.spill is not None:
        yield route.spill.route
    if route.shadow is not None:
        yield route.shadow.route


@runtime_checkable
class Demanding(Protocol):
    """A filter that asks for something of providers' cards."""

    def unmet(self, card: Card | None) -> str | None:
        """What a card lacks, in words, or ``None``."""
        ...


def _never_enough(world: World) -> Iterator[str]:
    """Targets that a route's filters never let anything go to, whatever is asked."""
    for route in (way for one in world.routes for way in _ways(one)):
        filters = [(name, policy) for name, policy in route.filters if isinstance(policy, Demanding)]
        for backend, model, card in cards_of(route, route.models[0], world.backends) if filters else ():
            if world.backends[backend].facts().down is not None:  # it may write its card when it is started
                continue
            unmet = next((f"`{name}`: {why}" for name, policy in filters if (why := policy.unmet(card))), None)
            if unmet is not None:
                yield f"routes.{route.name}.targets: nothing goes to `{backend}/{model}`, for {unmet}"


def _idle_shadows(world: World, book: PriceBook) -> Iterator[str]:
    """A shadow whose budget cannot be kept."""
    silent = {(name, model) for name, models in _silent(world, book) for model in models}
    for route in world.routes:
        if route.shadow is None:
            continue
        target = _spelt_out(route.shadow.route.targets[0], world)
        if (target.backend, target.model or "") in silent:
            yield f"routes.{route.name}.shadow: `{_name(target)}` has no price, so no request is ever copied"


def _of_route(route: Route, earlier: tuple[Route, ...], world: World) -> Iterator[str]:
    where = f"routes.{route.name}"
    # A pattern read as a name: its `*` is matched by nothing but a `*`, so what answers it answers all that it does.
    taken = {model: next((other.name for other in earlier if other.answers(model)), None) for model in route.models}
    if all(taken.values()):
        takers = ", ".join(dict.fromkeys(f"`{name}`" for name in taken.values()))
        yield f"{where}: it is never reached, for {takers} above it answers all of its models"
    for target, times in Counter(_spelt_out(target, world) for target in route.targets).items():
        if times > 1:
            yield f"{where}.targets: `{_name(target)}` is there {times} times; once is enough"
    yield from _endless(route, world, where)
    patience = route.patience
    for key, limit_s in (("first_token_s", patience.first_token_s), ("idle_s", patience.idle_s)):
        if limit_s >= patience.total_s:
            yield f"{where}.timeouts: `{key}` ({limit_s:g} s) never counts, for `total_s` is {patience.total_s:g} s"


def _endless(route: Route, world: World, where: str) -> Iterator[str]:
    """A queue in which nobody ever waits."""
    if getattr(route.admitter, "limit", 1) is not None:
        return
    facts = {target.backend: world.backends[target.backend].facts() for target in route.targets if not target.drain}
    for name, known in facts.items():
        if known.concurrency is None and known.adaptive is None:
            yield f"{where}.admit: nobody ever waits, for `limit` is null and `{name}` says no `concurrency`"


def _spelt_out(target: Target, world: World) -> Target:
    """With the model, where the backend has but one."""
    served = world.backends[target.backend].facts().models
    return target if target.model or len(served) != 1 else Target(backend=target.backend, model=next(iter(served)))


def _silent(world: World, book: PriceBook) -> Iterator[tuple[str, list[str]]]:
    """The backends that do not say what all of their models cost, and those models by name."""
    for name, backend in world.backends.items():
        facts = backend.facts()
        # One that is down until it is started may learn its prices then.
        models = {} if facts.down else facts.models or {"": facts.unlisted}
        silent = [model for model in models if book.price(facts, model) is None]
        if silent:
            yield name, silent


def _without_price(world: World, book: PriceBook) -> Iterator[str]:
    for name, silent in _silent(world, book):
        who = ", ".join(f"`{model}`" for model in silent if model) or "its models"
        has = "have" if len(silent) > 1 or silent == [""] else "has"
        yield f"backends.{name}: {who} {has} no price: the bill assumes one, and the ledger has no cost"


def _expired(tenancy: Tenancy, now_unix_s: float) -> Iterator[str]:
    for identity in tenancy.keys.values():
        ended_s = identity.expires_unix_s
        if ended_s is not None and ended_s <= now_unix_s:
            ended = datetime.fromtimestamp(ended_s, UTC).isoformat()
            yield f"tenants.{identity.tenant}.keys.{identity.key}: it expired at {ended} and opens nothing"


def _blind_limits(world: World, book: PriceBook) -> Iterator[str]:
    """Limits in US dollars beside backends whose price nobody knows: they refuse, or count nothing."""
    tenancy, silent = world.tenancy, dict(_silent(world, book))
    common = [limit for identity in tenancy.keys.values() for limit in identity.limits]
    common += [limit for _, limits in tenancy.models for limit in limits]
    beside = [(limit, list(silent)) for limit in dict.fromkeys(common)]
    beside += [(limit, [name]) for name in silent for limit in tenancy.backends.get(name, ())]
    for limit, names in beside:
        if limit.measure is Measure.USD and names:
            what = "keeps requests from" if limit.priced_only else "counts nothing of"
            where = f"{', '.join(names)}, where no price is known"
            yield f"{words(limit)}: it {what} {where} (`unpriced: allow` or `refuse`)"


def _name(target: Target) -> str:
    return f"{target.backend}/{target.model}" if target.model else target.backend
