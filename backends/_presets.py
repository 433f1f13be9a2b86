"""The providers that we know by name: ``presets.yaml``, read once."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml

from backends._chat_dialect import ChatDialect
from backends._models import CAPABILITIES
from gateway.facts import ModelFacts, PromptCache
from gateway.price import Price
from gateway.request_fields import NEVER_MATTERS
from gateway.types import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What is known of a provider: its address, its key's usual name, what it serves, refuses and costs.

    ``price_list`` is whose published prices its models have, ``states_cost`` whether its answers say what they cost.

    ``paths`` are those that are not below the address, but from the root of its host; ``free`` models cost nothing.
    ``gauges`` are those that together say how many requests it has.

    ``use`` is the backend that it is for, ``can`` what nobody is taken to be able to who does not say so.
    """

    base_url: str
    operations: frozenset[Operation]
    api_key_env: str = ""
    lacks: frozenset[str] = frozenset()
    can: frozenset[str] = frozenset()
    price: Price | None = None
    price_list: str = ""
    states_cost: bool = False
    prompt_cache: PromptCache | None = None
    paths: Mapping[Operation, str] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    gauges: frozenset[str] = frozenset()
    use: str = "openai_compatible"
    dialect: ChatDialect = field(default_factory=ChatDialect)


@cache
def presets() -> Mapping[str, Preset]:
    """All presets by name."""
    text = files("backends").joinpath("presets.yaml").read_text(encoding="utf-8")
    return MappingProxyType({name: _preset(**fields) for name, fields in yaml.safe_load(text).items()})


def preset_named(name: str, *, use: str = "openai_compatible") -> Preset:
    """The preset of that name, for the backend ``use``.

    Raises:
        ValueError: there is none; the message says which is meant, and which there are.
    """
    known = {other: preset for other, preset in presets().items() if preset.use == use}
    if name in known:
        return known[name]
    if name in presets():
        raise ValueError(f"`preset`: `{name}` has a backend of its own: `use: {presets()[name].use}`")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    raise ValueError(f"`preset`: there is no `{name}`; {hint}there is {', '.join(known)}")


def unsaid_of(preset: Preset | None, dialect: ChatDialect) -> ModelFacts:
    """What holds of a model that does not say for itself.

    The grammar of a custom tool binds nobody who has no custom tools.
    """
    lacks = preset.lacks if preset else frozenset()
    lacks = lacks if dialect.custom_tools else lacks | {"tool_grammar"}
    can = preset.can if preset else frozenset()
    return ModelFacts(
        capabilities=(CAPABILITIES - lacks) | can if lacks or can else None,
        refuses=dialect.refuses - NEVER_MATTERS,
        price=preset.price if preset else None,
    )


def price_list_of(said: str, preset: Preset | None) -> str:
    """Whose published prices hold: as the policy file says (``none`` for nobody's), else as the preset knows."""
    return "" if said == "none" else said or (preset.price_list if preset else "")


def _preset(
    *,
    base_url: str,
    operations: list[str],
    price: dict[str, float] | None = None,
    prompt_cache: dict[str, Any] | None = None,
    dialect: dict[str, Any] | None = None,
    paths: dict[str, str] | None = None,
    states_cost: bool = False,
    **said: Any,
) -> Preset:
    words: dict[str, Any] = {name: frozenset(it) if isinstance(it, list) else it for name, it in said.items()}
    return Preset(
        base_url=base_url,
        operations=frozenset(Operation(operation) for operation in operations),
        price=_price(price) if price else None,
        prompt_cache=PromptCache(**prompt_cache) if prompt_cache else None,
        dialect=_dialect(**dialect or {}),
        states_cost=states_cost,
        paths={Operation(operation): path for operation, path in (paths or {}).items()},
        **words,
    )


def _dialect(
    *, refuses: Sequence[Sequence[str]] = (), message_fields: Sequence[str] = (), **fields: Any
) -> ChatDialect:
    return ChatDialect(refuses=frozenset().union(*refuses), message_fields=frozenset(message_fields), **fields)


def _price(usd: Mapping[str, float]) -> Price:
    fields: dict[str, Any] = {name: Decimal(str(amount)) for name, amount in usd.items()}
    return Price(**fields)
