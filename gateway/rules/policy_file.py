"""The platform team's YAML as strict models: backends, routes, tenants. An error names the file, the path and a hint.

Which plugins stand behind a name is not decided here: a step is kept as it was written (``money``, or
``{use: money, ...}``) and built by ``gateway.rules.world``.
"""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from gateway.errors import ConfigurationError
from gateway.rules.caching import CacheSpec
from gateway.rules.faults import Faults
from gateway.rules.guard_specs import GuardSpecs
from gateway.rules.judging_specs import CascadeStepSpec, JudgeSpec, ShadowSpec, as_mapping
from gateway.rules.shape_faults import shape_error
from gateway.rules.spilling import SpillSpec
from gateway.rules.steer_specs import CanarySpec, ExploreSpec, Share, SuccessSpec
from gateway.rules.tenant_specs import MODEL, LimitsSpec, Name, Pattern, TaskSpec, TenantSpec
from gateway.rules.unpriced import Unpriced
from gateway.rules.unshaped import plugin_faults

Step = str | dict[str, Any]

_MERGE_TAG = "tag:yaml.org,2002:merge"
_YAML_HINTS = {
    r"found character '\t'": "indent with spaces",
    "cannot start any token": "put text that begins with it in quotes",
    "unknown escape character": "in double quotes a backslash begins an escape: take single quotes",
}


class Timeouts(BaseModel):
    """How long an answer may take, in seconds: until its first token, between two pieces, and as a whole.

    ``client_s`` is how long a client may leave what it was sent unread.
    """

    model_config = MODEL

    first_token_s: Annotated[float, Field(gt=0)] = 120.0
    idle_s: Annotated[float, Field(gt=0)] = 60.0
    total_s: Annotated[float, Field(gt=0)] = 900.0
    client_s: Annotated[float, Field(gt=0)] = 60.0


class WorthSpec(BaseModel):
    """What time and success are worth on a route, in US dollars: the exchange rates of the bill."""

    model_config = MODEL

    usd_per_second: Annotated[float, Field(ge=0)] = 0.001
    usd_per_success: Annotated[float, Field(ge=0)] = 0.01


class DeadlineSpec(BaseModel):
    """By when a first token and the whole answer are of use, in seconds from the arrival; left out: at any time."""

    model_config = MODEL

    first_token_s: Annotated[float, Field(gt=0)] | None = None
    total_s: Annotated[float, Field(gt=0)] | None = None


class HedgeSpec(BaseModel):
    """When a second backend is asked as well, and how much that may add to what is spent and sent."""

    model_config = MODEL

    quantile: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    most_requests: Annotated[float, Field(gt=0, le=1)] = 0.05
    most_spend: Annotated[float, Field(gt=0, le=1)] = 0.05


class TargetSpec(BaseModel):
    """A target with more to say of it than its name. One that drains, or weighs 0, gets nothing new."""

    model_config = MODEL

    to: Annotated[str, Field(min_length=1)]
    drain: bool = False
    weight: Annotated[int, Field(ge=0, le=1)] = 1


class Steps(BaseModel):
    """The steps of a route. What a route leaves out comes from ``defaults``, and what that leaves out from here."""

    model_config = MODEL

    classify: Step = "learned_length"
    filter: list[Step] = ["healthy", "capable", "fits_context"]
    cost: list[Step] = ["money", "waiting", "prefill", "decoding", "risk", "deadline", "leaving"]
    rank: Step = "by_cost"
    admit: Step = "fixed_concurrency"
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    timeouts: Timeouts = Timeouts()
    worth: WorthSpec = WorthSpec()
    deadline: DeadlineSpec | None = None
    hedge: HedgeSpec | None = None
    task: TaskSpec | None = None
    resume: bool = False
    unpriced: Unpriced = "allow"
    success: SuccessSpec | None = None
    least_success: Share | None = None
    explore: ExploreSpec | None = None
    judge: Annotated[JudgeSpec, BeforeValidator(as_mapping)] | None = None
    shadow: ShadowSpec | None = None
    cache: CacheSpec | None = None
    guards: GuardSpecs = []


class RouteSpec(Steps):
    """Which model names go where. ``models`` are names or patterns with ``*``, ``targets`` are ``backend[/model]``.

    A route has ``targets``, or a ``cascade`` whose steps have them.
    """

    models: Annotated[list[Pattern], Field(min_length=1)]
    targets: list[Annotated[str, Field(min_length=1)] | TargetSpec] = []
    cascade: list[CascadeStepSpec] | None = None
    canary: CanarySpec | None = None
    spill: SpillSpec | None = None


class PolicyFile(BaseModel):
    """The whole file."""

    model_config = MODEL

    backends: Annotated[dict[Name, dict[str, Any]], Field(min_length=1)]
    routes: dict[Name, RouteSpec] = {}
    tenants: dict[Name, TenantSpec] = {}
    limits: LimitsSpec = LimitsSpec()
    defaults: Steps = Steps()

    def secret_names(self) -> tuple[str, ...]:
        """The environment variables that backends, judges and guards name: values of ``api_key_env``, ``env``..."""
        steps = (self.defaults, *self.routes.values())
        judges = [spec.model_dump(include={"judge", "cascade", "shadow", "guards"}) for spec in steps]
        judges += [tenant.model_dump(include={"guards"}) for tenant in self.tenants.values()]
        return tuple(dict.fromkeys(_secret_names([self.backends, *judges])))


def _secret_names(tree: Any) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            names = value if isinstance(value, list) else [value]
            if (key == "env" or str(key).endswith("_env")) and all(isinstance(name, str) for name in names):
                yield from names
            else:
                yield from _secret_names(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _secret_names(item)


class _StrictLoader(yaml.SafeLoader):
    """YAML that finds fault with a key written twice: the loader's own habit is to keep the last one in silence.

    It refuses a value that holds itself, too (``a: &a {b: *a}``): whoever walks over it comes to no end.
    """

    def __init__(self, text: str, faults: Faults) -> None:
        super().__init__(text)
        self._faults = faults

    def construct_document(self, node: yaml.Node) -> Any:
        self.deep_construct = True  # what is inside comes first, and meets what it is in while that is unfinished
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002  # the parent's signature
        if node in self.recursive_objects:
            raise yaml.constructor.ConstructorError(None, None, "this holds itself", node.start_mark)
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # the parent's signature
        seen: set[Any] = set()
        for key_node in (key for key, _ in node.value if key.tag != _MERGE_TAG):
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in seen:
                line = key_node.start_mark.line + 1
                self._faults.add(ConfigurationError(f"{key!r} is there twice", where=f"line {line}"))
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_policy(path: Path) -> PolicyFile:
    """Reads and checks a policy file.

    Raises:
        ConfigurationError: with the file, the path inside it and a hint.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigurationError(f"cannot be read: {reason}", file=str(path)) from error
    return parse_policy(text, file=str(path))


def parse_policy(text: str, *, file: str) -> PolicyFile:
    """Checks the text of a policy file; ``file`` is its name in errors.

    Raises:
        ConfigurationError: with the file, the path inside it and a hint.
    """
    faults = Faults()
    tree = _tree(text, file, faults)
    if not isinstance(tree, Mapping):
        faults.add(ConfigurationError("the file holds no mapping", hint="it starts with `backends:`"))
        raise faults.error(file=file)
    try:
        policy = PolicyFile.model_validate(tree)
    except ValidationError as error:
        faults.add(shape_error(error, tree, PolicyFile))
        with faults.kept():
            plugin_faults(tree)
        raise faults.error(file=file) from None
    faults.tell(file=file)
    return policy


def _tree(text: str, file: str, faults: Faults) -> Any:
    """The file as YAML has it; keys that are written twice are among the faults."""
    try:
        return _StrictLoader(text, faults).get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or "this is not text that YAML allows"
        raise ConfigurationError(reason, file=file, where=where, hint=_yaml_hint(error, reason)) from None
    except (ValueError, TypeError, AttributeError, RecursionError):  # what the loader lets through, as for 2024-99-99
        raise ConfigurationError("holds a value that YAML cannot read", file=file, hint="put text in quotes") from None


def _yaml_hint(error: yaml.YAMLError, reason: str) -> str:
    if "alias" in (getattr(error, "context", None) or reason):
        return "a name with `*` stands in quotes"
    return next((hint for words, hint in _YAML_HINTS.items() if words in reason), "")
