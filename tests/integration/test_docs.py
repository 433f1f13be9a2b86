"""Every code block in the README and in ``docs/`` is run: what a page says is what happens."""

import doctest
import hashlib
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from backends._listed_price import ListedPrice
from backends._models import CAPABILITIES, ListedModel
from gateway.commands.explain import explain
from gateway.rules.caching import CacheSpec
from gateway.rules.guard_specs import GuardSpec
from gateway.rules.judging_specs import JudgeSpec, ShadowSpec
from gateway.rules.policy_file import (
    DeadlineSpec,
    HedgeSpec,
    PolicyFile,
    RouteSpec,
    Steps,
    Timeouts,
    WorthSpec,
    parse_policy,
)
from gateway.rules.steer_specs import ExploreSpec, SuccessSpec
from gateway.rules.tenant_specs import LimitsSpec, TaskSpec, TenantSpec
from gateway.rules.world import build_world

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
ADDRESS_IN_DOCS = "http://127.0.0.1:8080"
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}:{self.language}"


def blocks() -> list[Block]:
    """All fenced code blocks of all pages."""
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


BLOCKS = blocks()
RUN_HERE = {"sh", "python", "yaml", "text", "console"}
README_POLICY = next(block.text for block in BLOCKS if block.page.name == "README.md" and block.language == "yaml")
README_REQUEST = next(match[1] for block in BLOCKS if (match := re.search(r"echo '(.*)' > request.json", block.text)))


@dataclass(frozen=True, slots=True)
class Stage:
    """A running gateway, and a folder as a reader would have it."""

    address: str
    folder: Path
    environment: dict[str, str]

    def run(self, command: list[str] | str) -> subprocess.CompletedProcess[str]:
        """Runs a command as a reader would, with the address of this gateway."""
        return subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, default_model_path: Path) -> Iterator[Stage]:
    """The gateway that ``make serve`` starts, on a free port."""
    folder = tmp_path_factory.mktemp("reader")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HEADRACE_STATE_DIR": str(folder),
        "HEADRACE_MODEL_DIR": str(default_model_path.parent),
    }
    (folder / "policy.yaml").write_text(README_POLICY, encoding="utf-8")
    (folder / "request.json").write_text(README_REQUEST, encoding="utf-8")
    (folder / ".venv").symlink_to(sys.prefix)  # as `make serve` has left it where the reader stands
    with _serving(folder, environment, []) as address:
        yield Stage(address, folder, environment)


class _serving:  # noqa: N801  # reads as what it does: `with _serving(...)`
    """Starts ``headrace serve`` and, at the end, expects it to stop with 0 on SIGTERM."""

    def __init__(self, folder: Path, environment: dict[str, str], arguments: list[str]) -> None:
        self._command = [str(BIN / "headrace"), "serve", *arguments, "--port", "0"]
        self._folder = folder
        self._environment = environment

    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, env=self._environment, stderr=subprocess.PIPE, text=True
        )
        try:
            return self._said(r"local is (ready)", r"running on (http://127\.0\.0\.1:\d+)")
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise

    def _said(self, *patterns: str) -> str:
        """Waits for lines of the log, in whatever order; what the last pattern captured."""
        assert self._process.stderr is not None
        found: dict[str, str] = {}
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            found |= {pattern: match[1] for pattern in patterns if (match := re.search(pattern, line))}
            if len(found) == len(patterns):
                return found[patterns[-1]]
        raise AssertionError("".join(lines))

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        _, rest = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, rest


def _of(*languages: str) -> list[object]:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


def test_every_block_is_of_a_language_that_is_run_here() -> None:
    """A block that no test runs would go stale in silence."""
    assert set() == {str(block) for block in BLOCKS if block.language not in RUN_HERE}


def test_every_link_to_a_file_leads_somewhere() -> None:
    """Links between pages are relative and exist."""
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert [] == broken


@pytest.mark.parametrize("block", _of("yaml"))
def test_yaml_is_a_policy_file_that_loads(block: Block) -> None:
    """A policy in the docs can be copied and works."""
    world = build_world(parse_policy(block.text, file=str(block)), file=str(block))
    assert len(world.routes) > 0


@pytest.mark.model
@pytest.mark.parametrize("block", _of("sh"))
def test_shell_commands_do_what_they_say(block: Block, stage: Stage) -> None:
    """Each command of the block succeeds in the folder of a reader."""
    script = block.text.replace(ADDRESS_IN_DOCS, stage.address)
    exported = dict(re.findall(r"^export (\w+)=(.*)$", script, re.MULTILINE))
    stage = replace(stage, environment=stage.environment | exported)
    script = re.sub(r"^export .*\n", "", script, flags=re.MULTILINE)
    for command in re.sub(r"\\\n", "", script).strip().split("\n") if "'" not in script else [f"set -e\n{script}"]:
        _run_command(command, stage)


def _run_command(command: str, stage: Stage) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    elif words[:2] == ["headrace", "serve"]:
        with _serving(stage.folder, stage.environment, words[2:]):
            return
    elif words[0] == "sqlite3" and shutil.which("sqlite3") is None:
        assert len(sqlite3.connect(stage.folder / words[1]).execute(words[2]).fetchall()) > 0
        return
    else:
        done = stage.run(command)
    assert done.returncode == 0, done.stderr
    assert done.stdout != ""


@pytest.mark.model
@pytest.mark.parametrize("block", _of("python"))
def test_python_runs(block: Block, stage: Stage) -> None:
    """A program runs against the gateway and prints; a module imports."""
    source = block.text.replace(ADDRESS_IN_DOCS, stage.address)
    done = stage.run([sys.executable, "-W", "error", "-c", source])
    assert done.returncode == 0, done.stderr
    assert ("print(" in source) == (done.stdout != "")


@pytest.mark.parametrize("block", _of("console"))
def test_a_benchmark_is_there_and_takes_what_the_page_gives_it(block: Block) -> None:
    """Figures take minutes and are not made here; their commands are those of today."""
    for line in block.text.strip().split("\n"):
        script, *arguments = shlex.split(line.removeprefix("$ python "), comments=True)
        done = subprocess.run(
            [sys.executable, str(ROOT / script), "--help"], capture_output=True, text=True, check=True
        )
        options = [argument for argument in arguments if argument.startswith("-")]
        assert [] == [option for option in options if option not in done.stdout]


@pytest.mark.model
@pytest.mark.parametrize("block", _of("text"))
def test_shown_output_is_what_explain_prints(block: Block, stage: Stage) -> None:
    """The bill in the README is the bill that the command prints, but for the lines left out."""
    done = stage.run("headrace explain policy.yaml request.json")
    assert doctest.OutputChecker().check_output(block.text, done.stdout, doctest.ELLIPSIS), done.stdout


def test_the_example_plugin_can_be_used_in_a_policy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class in plugins-vs-builtins.md loads by its name from somebody else's package."""
    (block,) = [block for block in BLOCKS if block.page.name == "plugins-vs-builtins.md" and block.language == "python"]
    (tmp_path / "example_of_the_docs.py").write_text(block.text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = "backends: {home-1: {use: fake}}\ndefaults: {cost: [{use: 'example_of_the_docs:FarAway', home: home}]}\n"
    world = build_world(parse_policy(policy, file="policy.yaml"), file="policy.yaml")
    assert ("FarAway", "home") == (type(world.routes[0].scorers[0][1]).__name__, world.routes[0].scorers[0][1].home)


@pytest.mark.model
def test_what_is_not_set_yet_is_named_before_it_is_served(stage: Stage) -> None:
    """The README exports the key that its policy names: `check` says so to who forgot."""
    done = stage.run("headrace check policy.yaml")
    assert "warning: GROQ_API_KEY is not set in this environment" in done.stdout
    assert done.stdout.endswith("policy.yaml: right, but 1 environment variable is not set (2 backends, 1 route)\n")
    assert 1 == done.stdout.count("warning: ")


# ---- docs/policy-file.md -------------------------------------------------------------------------------------

POLICY_PAGE = (ROOT / "docs" / "policy-file.md").read_text(encoding="utf-8")
POLICY_EXAMPLE = next(
    block.text for block in BLOCKS if block.page.name == "policy-file.md" and block.language == "yaml"
)
FIELDS_SHOWN = dict(re.findall(r"^\| `([\w.*]+)` \| (.+?) \|", POLICY_PAGE, re.MULTILINE))


_NESTED = {
    "timeouts": Timeouts,
    "worth": WorthSpec,
    "limits": LimitsSpec,
    "deadline": DeadlineSpec,
    "hedge": HedgeSpec,
    "task": TaskSpec,
    "judge": JudgeSpec,
    "shadow": ShadowSpec,
    "success": SuccessSpec,
    "explore": ExploreSpec,
    "cache": CacheSpec,
    "guards": GuardSpec,
}
_WORDS_FOR = {"defaults": "as below", "tenants.*.routes": "all", "tenants.*.models": "all"}


def _shown(default: object) -> str:
    """A default as the table has it."""
    if default in ({}, None):
        return "none"
    if isinstance(default, list):
        return f"`[{', '.join(default)}]`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _fields(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Each field of a policy file's model, in the table's words."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        nested = _NESTED.get(name)
        if nested is not None and not prefix:
            found |= _fields(nested, f"{name}.")
        elif field.is_required():
            found[prefix + name] = "must be given"
        else:
            found[prefix + name] = _WORDS_FOR.get(prefix + name) or _shown(field.default)
    return found


def test_the_table_of_fields_has_each_with_its_real_default() -> None:
    """A default that changes in the code changes on the page, or this fails."""
    of_a_route = {
        name: shown
        for name, shown in _fields(RouteSpec, "routes.*.").items()
        if name.removeprefix("routes.*.") not in Steps.model_fields
    }
    expected = _fields(PolicyFile) | of_a_route | _fields(TenantSpec, "tenants.*.") | _fields(Steps)
    of_a_model = {field.name for field in fields(ListedModel)}
    of_a_price = {f"price.{field.name}" for field in fields(ListedPrice)}
    assert expected == {name: shown for name, shown in FIELDS_SHOWN.items() if name not in of_a_model | of_a_price}
    assert of_a_model | of_a_price <= FIELDS_SHOWN.keys()


def test_the_words_for_capabilities_are_all_there() -> None:
    """In the sentence that lists them."""
    (sentence,) = re.findall(r"^Capabilities: (.*?)\n\n", POLICY_PAGE, re.MULTILINE | re.DOTALL)
    assert sorted(CAPABILITIES) == [word for word in re.findall(r"`(\w+)`", sentence) if word != "n"]


def test_the_sample_hash_is_that_of_the_key_that_the_page_says() -> None:
    """Whoever wonders where it comes from can make it."""
    assert parse_policy(POLICY_EXAMPLE, file="policy.yaml").tenants["team-a"].keys_sha256 == [
        hashlib.sha256(b"test").hexdigest()
    ]


def test_the_example_prefers_a_replica_of_ones_own_to_a_paid_provider() -> None:
    """It has no price in the file and costs nothing all the same; the paid one takes over where it must."""
    world = build_world(parse_policy(POLICY_EXAMPLE, file="policy.yaml"), file="policy.yaml")
    explanation = explain(
        world, b'{"model": "chat", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
    )
    assert ["replica-1", "paid"] == [bill.candidate.backend for bill in explanation.decision.order]
