"""The model cache: a folder of GGUF files, each with a JSON record beside it.

Wherever a model is named, any of these will do: a known name (`smollm2-135m-instruct:q8_0`), a hub id
(`hf:org/repo/file.gguf`, or `org/repo:quantisation`), or the path of a GGUF file. The first two must be pulled before;
afterwards nothing needs a network.
"""

import difflib
import re
from pathlib import Path

import msgspec

from embedded_engine.errors import ModelNotFound
from embedded_engine.known_models import KNOWN_MODELS

__all__ = ["ModelFile", "default_model_dir", "file_name", "find_model", "hub_id", "list_models", "record_path"]

_HUB_ID = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[\w./-]+\.gguf)")
_HUB_NAME = re.compile(r"(?:hf:)?(?P<repo>[\w.-]+/[\w.-]+):(?P<file>\w+)")


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A model file and where it came from.

    Attributes:
        name: What it is asked for by.
        path: The GGUF file.
        source: Where it was got from; for a file given by path, the path.
        sha256: Its digest; None for a file given by path.
        licence: What its authors allow; None where we were not told.
        quantisation: As served; None where we were not told.
        size_bytes: Its size.
    """

    name: str
    path: str
    source: str
    sha256: str | None
    licence: str | None
    quantisation: str | None
    size_bytes: int


def default_model_dir() -> Path:
    """Where models are kept unless somebody says otherwise; the environment is the caller's to read."""
    return Path.home() / ".cache" / "headrace" / "models"


def hub_id(name: str) -> tuple[str, str] | None:
    """Repository of a hub id, and its file or its quantisation; None for any other name."""
    match = _HUB_ID.fullmatch(name) or _HUB_NAME.fullmatch(name)
    return (match["repo"], match["file"]) if match and ".." not in name else None


def file_name(name: str) -> str:
    """What a pulled model's file is called in the cache.

    Raises:
        ModelNotFound: The name is neither a known one nor a hub id.
    """
    if name in KNOWN_MODELS:
        return name.replace(":", ".") + ".gguf"
    if hub_id(name):
        plain = name.removesuffix(".gguf").replace(":", "--").replace("/", "--")
        return f"{plain}.gguf"
    raise _unknown(name)


def record_path(model: Path) -> Path:
    """The JSON record of a model file in the cache."""
    return model.with_name(model.name + ".json")


def find_model(name: str, model_dir: Path) -> ModelFile:
    """The file for a known name, a hub id or a path.

    Raises:
        ModelNotFound: There is none; the message says what to do.
    """
    as_path = Path(name).expanduser()
    if not hub_id(name) and name not in KNOWN_MODELS and name.endswith(".gguf"):
        if not as_path.is_file():
            raise ModelNotFound(f"there is no model file {as_path}")
        return ModelFile(
            name=as_path.name,
            path=str(as_path),
            source=str(as_path),
            sha256=None,
            licence=None,
            quantisation=None,
            size_bytes=as_path.stat().st_size,
        )
    path = model_dir / file_name(name)
    if not path.is_file() or not record_path(path).is_file():
        raise ModelNotFound(f"model {name} is not in {model_dir} yet: headrace model pull {name}")
    return _read_record(path)


def list_models(model_dir: Path) -> list[ModelFile]:
    """All pulled models, by name."""
    files = [path for path in model_dir.glob("*.gguf") if record_path(path).is_file()]
    return sorted(map(_read_record, files), key=lambda model: model.name)


def _read_record(path: Path) -> ModelFile:
    record = msgspec.json.decode(record_path(path).read_bytes(), type=ModelFile)
    return msgspec.structs.replace(record, path=str(path))  # the cache may have been moved


def _unknown(name: str) -> ModelNotFound:
    close = difflib.get_close_matches(name, KNOWN_MODELS, n=1, cutoff=0.4)
    hint = f" Did you mean {close[0]}?" if close else ""
    return ModelNotFound(
        f"there is no model {name!r}.{hint} Known are {', '.join(KNOWN_MODELS)}; "
        "a path to a .gguf file, hf:org/repo/file.gguf and org/repo:quantisation work too."
    )
