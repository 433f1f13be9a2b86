"""The cards of those who serve a model: who would answer a name that a client asks for, and how each computes it."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.card import Card
from gateway.facts import BackendFacts
from gateway.ports import Backend
from gateway.rules.route import Route, Target


def cards_of(route: Route, asked: str, backends: Mapping[str, Backend]) -> Iterator[tuple[str, str, Card | None]]:
    """Of each target of a route its backend, the model's name there, and its card; ``None`` where it has none."""
    for target in route.targets:
        facts = backends[target.backend].facts()
        model = model_at(target, facts, asked)
        yield target.backend, model, facts.models.get(model, facts.unlisted).card


def shown_cards(route: Route, asked: str, backends: Mapping[str, Backend]) -> list[dict[str, Any]]:
    """The same for clients: those that have one, each with what is known."""
    return [
        {"backend": backend, "model": model, **card.stated()}
        for backend, model, card in cards_of(route, asked, backends)
        if card is not None
    ]


def model_at(target: Target, facts: BackendFacts, asked: str) -> str:
    """The model's name at a target: the one it names, else the one asked for, else the backend's only one."""
    if target.model is not None:
        return target.model
    if asked not in facts.models and len(facts.models) == 1:
        return next(iter(facts.models))
    return asked
