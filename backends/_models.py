"""The ``models`` parameter that backends share: a list of names, or names with what is known of each."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from backends._listed_card import ListedCard
from backends._listed_price import ListedPrice
from gateway.facts import ModelFacts

CAPABILITIES = frozenset(
    {
        "audio",
        "best_of",
        "echo",
        "file",
        "json_mode",
        "json_schema",
        "logit_bias",
        "logprobs",
        "many",
        "penalties",
        "raw_prompt",
        "suffix",
        "token_prompt",
        "tool_grammar",
        "tools",
        "vision",
    }
)
"""The capabilities that requests may need, by the words that the wire formats use."""

DECLARED = frozenset({"continue"})
"""Capabilities that no request needs and that nobody has who does not say so: going on with a broken answer."""

_REFUSE_TYPING_ERRORS: Mapping[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel(ModelFacts):
    """A model as it stands in YAML: unknown keys and unknown capabilities and a window of nothing are refused."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    price: ListedPrice | None = None
    card: ListedCard | None = None

    def __post_init__(self) -> None:
        if self.context_tokens is not None and self.context_tokens < 1:
            raise ValueError("`context_tokens` must be at least 1")
        known = sorted(CAPABILITIES | DECLARED)
        for word in sorted((self.capabilities or frozenset()).difference(known)):
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean `{near[0]}`? " if near else ""
            raise ValueError(f"`capabilities`: there is no `{word}`; {hint}there is {', '.join(known)}")


Models = Mapping[str, ListedModel | None] | tuple[str, ...]
"""``[llama-3.3-70b]`` where nothing is known, ``{llama-3.3-70b: {context_tokens: 131072, price: {...}}}`` otherwise."""


_NOTHING = ModelFacts()


def listed(models: Models, *, unsaid: ModelFacts = _NOTHING) -> dict[str, ModelFacts]:
    """The facts of each model. ``unsaid`` has what holds where a model does not say for itself.

    Raises:
        ValueError: a name is empty or stands there twice.
    """
    names = tuple(models)
    if not all(name.strip() for name in names):
        raise ValueError("`models` has an empty name")
    if len(set(names)) != len(names):
        raise ValueError("`models` names one twice")
    if not isinstance(models, Mapping):
        return dict.fromkeys(names, unsaid)
    return {name: _with(facts, unsaid) for name, facts in models.items()}


def _with(facts: ModelFacts | None, unsaid: ModelFacts) -> ModelFacts:
    if facts is None:
        return unsaid
    return ModelFacts(
        context_tokens=facts.context_tokens,
        capabilities=unsaid.capabilities if facts.capabilities is None else facts.capabilities,
        carries=unsaid.carries if facts.carries is None else facts.carries,
        price=unsaid.price if facts.price is None else facts.price,
        card=unsaid.card if facts.card is None else facts.card.over(unsaid.card),
        refuses=facts.refuses or unsaid.refuses,
        load_s=unsaid.load_s,
    )
