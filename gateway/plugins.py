"""A name in YAML -> a checked instance.

A plugin is a frozen dataclass: its fields are its YAML parameters, its docstring its documentation, its file name its
name. ``{use: money}`` in a route's costs is ``policies/cost/money.py``; ``{use: "acme.geo:Nearest"}`` is a class of
somebody else's package. Nothing is imported before a policy file names it, and everything is checked when it does: the
verbs of its port, unknown and missing parameters, types, and the ranges that its ``__post_init__`` refuses.
"""

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType, ModuleType
from typing import Any, get_type_hints

import msgspec
import pydantic

from gateway import ports
from gateway.errors import ConfigurationError

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
        "admit": Family(package="policies.admit", port=ports.Admitter),
        "filter": Family(package="policies.filter", port=ports.Filter),
        "cost": Family(package="policies.cost", port=ports.Scorer),
        "rank": Family(package="policies.rank", port=ports.Ranker),
        "backend": Family(package="backends", port=ports.Backend),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One YAML parameter. ``default`` is written as Python writes it, or ``None`` where it must be given."""

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


def load(family: str, name: str) -> type:
    """The class behind ``name``: ``by_cost`` is a module of the family's package, ``acme.geo:Nearest`` any class.

    Raises:
        ConfigurationError: there is no such plugin, it cannot be imported, or it is not one.
    """
    module_name, colon, class_name = name.partition(":")
    if colon:
        module = _import(name, module_name)
        cls = getattr(module, class_name, None)
        if cls is None:
            raise ConfigurationError(f"`{module_name}` has no `{class_name}`", hint=_close(class_name, vars(module)))
    else:
        shipped = names(family)
        if name not in shipped:
            raise ConfigurationError(f"there is no {family} plugin `{name}`", hint=_close(name, shipped))
        cls = _only_plugin(_import(name, f"{_family(family).package}.{name}"))
    _check_class(family, name, cls)
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
    try:
        cls = load(family, name)
    except ConfigurationError as error:
        raise ConfigurationError(error.message, where=where, hint=error.hint) from error
    values = _convert(cls, given, where)
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
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
    parameters = tuple(
        Parameter(
            name=field.name,
            type=inspect.formatannotation(hints[field.name]),
            default=_default_text(field),
            unit=_unit(field.name),
        )
        for field in _parameters(cls)
    )
    return PluginCard(family=family, name=name, summary=text.partition("\n")[0], text=text, parameters=parameters)


def schema(family: str, name: str) -> dict[str, Any]:
    """The JSON Schema of a plugin's parameters.

    Raises:
        ConfigurationError: as ``load`` does.
    """
    return _model(load(family, name)).model_json_schema()


# ---- finding a class ------------------------------------------------------------------------------------------------


def _family(name: str) -> Family:
    if name not in FAMILIES:
        raise ConfigurationError(f"there is no plugin family `{name}`", hint=_close(name, FAMILIES))
    return FAMILIES[name]


def _import(plugin: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  # foreign code may raise anything while it is imported
        raise ConfigurationError(f"`{plugin}` cannot be imported: {type(error).__name__}: {error}") from error


def _only_plugin(module: ModuleType) -> type:
    own = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and is_dataclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]
    if len(own) != 1:
        found = ", ".join(cls.__name__ for cls in own) or "none"
        raise ConfigurationError(f"`{module.__name__}` must have one public dataclass of its own, and has {found}")
    return own[0]


def _check_class(family: str, name: str, cls: type) -> None:
    if not inspect.isclass(cls) or not is_dataclass(cls) or not cls.__dataclass_params__.frozen:
        raise ConfigurationError(f"`{name}` is not a frozen dataclass")
    wanted = _family(family)
    for attribute in (*wanted.verbs, *wanted.attributes):
        if not hasattr(cls, attribute):
            raise ConfigurationError(f"`{name}` is no {family} plugin: it has no `{attribute}`")
    for verb in wanted.verbs:
        expected, actual = getattr(wanted.port, verb), getattr(cls, verb)
        if not callable(actual) or not _fits(expected, actual):
            form = "async def" if inspect.iscoroutinefunction(expected) else "def"
            raise ConfigurationError(
                f"`{name}` is no {family} plugin: it needs `{form} {verb}{inspect.signature(expected)}`"
            )


def _fits(expected: Any, actual: Any) -> bool:
    """Whether ``actual`` can be called as ``expected`` is, and waited for where that is."""
    if inspect.iscoroutinefunction(expected) != inspect.iscoroutinefunction(actual):
        return False
    signature = inspect.signature(actual)
    positional = [0 for parameter in inspect.signature(expected).parameters.values()]
    try:
        signature.bind(*positional)
    except TypeError:
        return False
    return True


# ---- its parameters -------------------------------------------------------------------------------------------------


def _split(family: str, spec: Mapping[str, Any] | str, where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise ConfigurationError(f"should be a {family} plugin: its name, or a mapping with `use`", where=where)
    name = spec.get("use")
    if not isinstance(name, str):
        raise ConfigurationError(f"`use` should name a {family} plugin", where=where, hint=_one_of(names(family)))
    return name, {key: value for key, value in spec.items() if key != "use"}


def _parameters(cls: type) -> list[Field[Any]]:
    return [field for field in fields(cls) if field.init]


@lru_cache(maxsize=256)
def _model(cls: type) -> type[pydantic.BaseModel]:
    """A model of the parameters alone: the plugin's own class is built by its own constructor."""
    hints = get_type_hints(cls, include_extras=True)
    columns: dict[str, Any] = {}
    for position, field in enumerate(_parameters(cls)):
        default: Any = {} if field.default is MISSING else {"default": field.default}
        if field.default_factory is not MISSING:
            default = {"default_factory": field.default_factory}
        # The alias is the name: a parameter may then be called `json` or `copy`, which pydantic's models have as verbs.
        columns[f"parameter_{position}"] = (hints[field.name], pydantic.Field(alias=field.name, **default))
    config = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return pydantic.create_model(cls.__name__, __config__=config, __doc__=cls.__doc__, **columns)


def _convert(cls: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    model = _model(cls)
    try:
        # As JSON, where strict means "no number from text" and yet a list may become a tuple, and text a path.
        checked = model.model_validate_json(msgspec.json.encode(given))
    except pydantic.ValidationError as error:
        raise _first_fault(cls, error, where) from error
    except TypeError as error:
        raise ConfigurationError(f"holds what is no text, number, list or mapping: {error}", where=where) from error
    return {
        field.name: getattr(checked, f"parameter_{position}")
        for position, field in enumerate(_parameters(cls))
        if f"parameter_{position}" in checked.model_fields_set
    }


def _first_fault(cls: type, error: pydantic.ValidationError, where: str) -> ConfigurationError:
    fault = error.errors(include_url=False, include_input=False)[0]
    path = where + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    known = [field.name for field in _parameters(cls)]
    if fault["type"] == "extra_forbidden":
        return ConfigurationError("unknown parameter", where=path, hint=_close(str(fault["loc"][-1]), known))
    if fault["type"] == "missing":
        return ConfigurationError("must be given", where=path)
    return ConfigurationError(fault["msg"].removeprefix("Value error, ").removeprefix("Input "), where=path)


# ---- words ----------------------------------------------------------------------------------------------------------


def _close(name: str, known: Iterable[str]) -> str:
    candidates = sorted(item for item in known if item[0] != "_")
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"did you mean `{near[0]}`? {_one_of(candidates)}" if near else _one_of(candidates)


def _one_of(known: Iterable[str]) -> str:
    return "there is " + (", ".join(f"`{item}`" for item in known) or "none")


def _default_text(field: Field[Any]) -> str | None:
    if field.default is not MISSING:
        return repr(field.default)
    return repr(field.default_factory()) if field.default_factory is not MISSING else None


def _unit(parameter: str) -> str:
    return next((unit for ending, unit in _UNITS if parameter.endswith(ending)), "")
