"""A name in YAML -> a checked instance.

A plugin is a frozen dataclass: its fields are its YAML parameters, its docstring its documentation, its file name its
name. ``{use: money}`` in a route's costs is ``policies/cost/money.py``; ``{use: "acme.geo:Nearest"}`` is a class of
somebody else's package. Nothing is imported before a policy file names it, and everything is checked when it does: the
verbs of its port, unknown and missing parameters, types, and the ranges that its ``__post_init__`` refuses.
"""

import importlib
import importlib.util
import inspect
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, is_dataclass
from types import MappingProxyType, ModuleType
from typing import Any, get_type_hints

from gateway import ports
from gateway.admission import Admitter
from gateway.errors import ConfigurationError
from gateway.guard import Guard
from gateway.judgement import Judge
from gateway.rules.parameters import convert, did_you_mean, in_words, json_schema, one_of, parameters

_UNITS = (
    ("usd_per_mtok", "US dollars per million tokens"),
    ("usd_per_second", "US dollars per second"),
    ("tokens_per_s", "tokens per second"),
    ("bytes_per_token", "bytes per token"),
    ("seconds_per_token", "seconds per token"),
    ("_per_s", "per second"),
    ("_usd", "US dollars"),
    ("_tokens", "tokens"),
    ("_bytes", "bytes"),
    ("_mb", "megabytes"),
    ("_s", "seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of plugin: the package whose modules are its plugins, and the port that each must fit."""

    package: str
    port: type

    @property
    def verbs(self) -> tuple[str, ...]:
        """The methods that an instance must have."""
        return tuple(name for name, value in vars(self.port).items() if inspect.isfunction(value) and name[0] != "_")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The class attributes that an instance must have."""
        return tuple(inspect.get_annotations(self.port))


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "classify": Family(package="policies.classify", port=ports.Classifier),
        "admit": Family(package="policies.admit", port=Admitter),
        "filter": Family(package="policies.filter", port=ports.Filter),
        "cost": Family(package="policies.cost", port=ports.Scorer),
        "rank": Family(package="policies.rank", port=ports.Ranker),
        "judge": Family(package="policies.judge", port=Judge),
        "guard": Family(package="policies.guard", port=Guard),
        "backend": Family(package="backends", port=ports.Backend),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One YAML parameter. ``default`` is written as YAML has it, or ``None`` where it must be given."""

    name: str
    type: str
    default: str | None
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCard:
    """What people read about a plugin: its docstring, whole (``text``) and its first line, and its parameters."""

    family: str
    name: str
    summary: str
    text: str
    parameters: tuple[Parameter, ...]


def names(family: str) -> tuple[str, ...]:
    """The plugins that ship in ``family``, sorted: the modules of its package, none of which is imported."""
    spec = importlib.util.find_spec(_family(family).package)
    folders = spec.submodule_search_locations if spec else None
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders) if module.name[0] != "_"))


def load(family: str, name: str, *, where: str = "") -> type:
    """The class behind ``name``: ``by_cost`` is a module of the family's package, ``acme.geo:Nearest`` any class.

    Raises:
        ConfigurationError: at ``where``: there is no such plugin, it cannot be imported, or it is not one.
    """
    module_name, colon, class_name = name.partition(":")
    if colon:
        module = _import(name, module_name, where)
        cls = getattr(module, class_name, None)
        if cls is None:
            classes = [key for key, value in vars(module).items() if is_dataclass(value)]
            hint = did_you_mean(class_name, classes)
            raise ConfigurationError(f"`{module_name}` has no `{class_name}`", where=where, hint=hint)
    else:
        shipped = names(family)
        if name not in shipped:
            hint = did_you_mean(name, shipped)
            raise ConfigurationError(f"there is no {family} plugin `{name}`", where=where, hint=hint)
        cls = _only_plugin(_import(name, f"{_family(family).package}.{name}", where), where)
    fault = _unfit(_family(family), cls)
    if fault:
        raise ConfigurationError(f"`{name}` is no {family} plugin: {fault}", where=where)
    return cls


def build(family: str, spec: Mapping[str, Any] | str, *, where: str) -> Any:
    """An instance from what stands in YAML: ``{use: name, ...parameters}``, or the bare name.

    Args:
        family: a key of ``FAMILIES``.
        spec: the parsed YAML; numbers for a ``Decimal`` keep the digits that were written.
        where: the path of ``spec`` in the policy file (``routes[0].cost[1]``), for the error.

    Raises:
        ConfigurationError: with the path of the parameter at fault, and a hint.
    """
    name, given = _split(family, spec, where)
    cls = load(family, name, where=where)
    values = convert(cls, given, where)
    try:
        return cls(**values)
    except ValueError as error:
        at_fault = next((parameter for parameter in values if f"`{parameter}`" in str(error)), None)
        raise ConfigurationError(str(error), where=f"{where}.{at_fault}" if at_fault else where) from error


def describe(family: str, name: str) -> PluginCard:
    """The card of a plugin, for people and for the generated reference.

    Raises:
        ConfigurationError: as ``load`` does.
    """
    cls = load(family, name)
    text = inspect.getdoc(cls) or ""
    hints = get_type_hints(cls)
    described = tuple(
        Parameter(
            name=field.name,
            type=in_words(hints[field.name]),
            default=_default_text(field),
            unit=_unit(field.name),
        )
        for field in parameters(cls)
    )
    return PluginCard(family=family, name=name, summary=text.partition("\n")[0], text=text, parameters=described)


def schema(family: str, name: str) -> dict[str, Any]:
    """The JSON Schema of a plugin's parameters.

    Raises:
        ConfigurationError: as ``load`` does.
    """
    return json_schema(load(family, name))


# ---- a class ------------------------------------------------------------------------------------------------


def _family(name: str) -> Family:
    if name not in FAMILIES:
        raise ConfigurationError(f"there is no plugin family `{name}`", hint=did_you_mean(name, FAMILIES))
    return FAMILIES[name]


def _import(plugin: str, module: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # foreign code may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"`{plugin}` cannot be imported: {reason}", where=where) from error


def _only_plugin(module: ModuleType, where: str) -> type:
    own = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and is_dataclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]
    if len(own) != 1:
        found = ", ".join(cls.__name__ for cls in own) or "none"
        fault = f"`{module.__name__}` must have one public dataclass of its own, and has {found}"
        raise ConfigurationError(fault, where=where)
    return own[0]


def _unfit(family: Family, cls: Any) -> str:
    """Why ``cls`` cannot be a plugin of ``family``; empty where it can."""
    if not inspect.isclass(cls) or not is_dataclass(cls) or not vars(cls)["__dataclass_params__"].frozen:
        return "it is not a frozen dataclass"
    for attribute in family.attributes:
        if not hasattr(cls, attribute):
            return f"it has no `{attribute}`"
    for verb in family.verbs:
        expected = getattr(family.port, verb)
        if not _fits(expected, getattr(cls, verb, None)):
            form = "async def" if inspect.iscoroutinefunction(expected) else "def"
            return f"it needs `{form} {verb}({', '.join(inspect.signature(expected).parameters)})`"
    return ""


def _fits(expected: Any, actual: Any) -> bool:
    """Whether ``actual`` can be called as ``expected`` is, and awaited where that is."""
    if not callable(actual) or inspect.iscoroutinefunction(expected) != inspect.iscoroutinefunction(actual):
        return False
    try:
        inspect.signature(actual).bind(*inspect.signature(expected).parameters)
    except TypeError:
        return False
    return True


def _split(family: str, spec: Mapping[str, Any] | str, where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise ConfigurationError(f"should be a {family} plugin: its name, or a mapping with `use`", where=where)
    name = spec.get("use")
    if not isinstance(name, str):
        raise ConfigurationError(f"`use` should name a {family} plugin", where=where, hint=one_of(names(family)))
    return name, {key: value for key, value in spec.items() if key != "use"}


def _default_text(field: Field[Any]) -> str | None:
    if field.default is not MISSING:
        value = field.default
    elif field.default_factory is not MISSING:
        value = field.default_factory()
    else:
        return None
    if value is None:
        return "none"
    try:  # as YAML has it: JSON is YAML
        return json.dumps(value, default=sorted, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def _unit(parameter: str) -> str:
    return next((unit for ending, unit in _UNITS if parameter.endswith(ending)), "")
