"""A hub on this machine that speaks Hugging Face's HTTP: redirects to another host, digests, ranges, tokens."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from embedded_engine.hub import Hub, PullFailed
from embedded_engine.models import find_model
from embedded_engine.pull import pull_model

GGUF = b"GGUF" + bytes(range(256)) * 40
DIGEST = hashlib.sha256(GGUF).hexdigest()
FILES = [
    "README.md",
    "m-Q4_K_M.gguf",
    "m-Q8_0.gguf",
    "mmproj-Q8_0.gguf",
    "m-F16-00001-of-00002.gguf",
    "m-F16-00002-of-00002.gguf",
]


@dataclass
class Site:
    """What the two hosts do, and what they were asked: method, path, token and range."""

    content: bytes = GGUF
    digest: str = DIGEST
    cut_after: int | None = None
    ranges: bool = True
    token: str | None = None
    asked: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    url: str = ""
    store_url: str = ""


class _Quiet(BaseHTTPRequestHandler):
    site: ClassVar[Site]

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _note(self) -> None:
        headers = self.headers
        self.site.asked.append((self.command, self.path, headers.get("Authorization"), headers.get("Range")))

    def _reply(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _HubHandler(_Quiet):
    def do_HEAD(self) -> None:
        """A file, or where it is."""
        self._note()
        site = self.site
        if site.token is not None and self.headers.get("Authorization") != f"Bearer {site.token}":
            self._reply(401, {})
        elif self.path.startswith("/org/old/"):
            self._reply(307, {"Location": self.path.replace("/org/old/", "/org/repo/")})
        elif self.path == "/org/repo/resolve/main/m-Q8_0.gguf":
            told = {"X-Linked-Etag": f'"{site.digest}"', "X-Linked-Size": str(len(site.content))}
            self._reply(302, {"Location": f"{site.store_url}/blob?signature=x", **told})
        else:
            self._reply(404, {})

    def do_GET(self) -> None:
        """A list of files."""
        self._note()
        if self.path == "/api/models/org/repo":
            self._reply(200, {}, json.dumps({"siblings": [{"rfilename": name} for name in FILES]}).encode())
        else:
            self._reply(404, {})


class _StoreHandler(_Quiet):
    def do_GET(self) -> None:
        """The content, or the rest of it."""
        self._note()
        asked, start = self.headers.get("Range"), 0
        if asked and self.site.ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        body = self.site.content[start:]
        if start and not body:
            self._reply(416, {})
            return
        self._reply(206 if start else 200, {"Content-Length": str(len(body))}, body[: self.site.cut_after])


@contextmanager
def _serve(kind: type[_Quiet], site: Site) -> Iterator[str]:
    handler = type("Handler", (kind,), {"site": site})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    """A hub, and the store that it sends those who want a file to."""
    site = Site()
    with _serve(_HubHandler, site) as site.url, _serve(_StoreHandler, site) as site.store_url:
        yield site


def _pull(site: Site, name: str, folder: Path, **options: Any) -> Any:
    hub = Hub(url=site.url, **options)
    return pull_model(name, folder, say=lambda _: None, progress=lambda _done, _total: None, hub=hub)


@pytest.mark.parametrize(
    "name", ["hf:org/repo/m-Q8_0.gguf", "org/repo:q8_0", "hf:org/repo:Q8_0", "hf:org/old/m-Q8_0.gguf"]
)
def test_a_model_is_found_downloaded_and_checked(site: Site, tmp_path: Path, name: str) -> None:
    """By its file or by its quantisation; the store is on another host, and old names of repositories are followed."""
    pulled = _pull(site, name, tmp_path)
    assert (GGUF, DIGEST, name) == (Path(pulled.path).read_bytes(), pulled.sha256, pulled.name)
    assert pulled == find_model(name, tmp_path)
    assert [] == list(tmp_path.glob(".part-*"))


def test_the_token_is_shown_to_the_hub_and_to_nobody_else(site: Site, tmp_path: Path) -> None:
    """The store's address is signed already; a token sent there would be given away."""
    site.token = "hf_secret"
    _pull(site, "hf:org/repo/m-Q8_0.gguf", tmp_path, token="hf_secret")
    at_the_hub = [token for _, path, token, _ in site.asked if path.startswith("/org/")]
    at_the_store = [token for _, path, token, _ in site.asked if path.startswith("/blob")]
    assert ({"Bearer hf_secret"}, [None]) == (set(at_the_hub), at_the_store)
    assert "hf_secret" not in repr(Hub(token="hf_secret"))


def test_who_may_not_read_is_told_so(site: Site, tmp_path: Path) -> None:
    """Without words of the token."""
    site.token = "hf_secret"
    with pytest.raises(PullFailed, match=r"401.*may anybody read it") as caught:
        _pull(site, "hf:org/repo/m-Q8_0.gguf", tmp_path, token="hf_wrong")
    assert "hf_" not in str(caught.value).replace("hf:", "")


def test_a_download_that_broke_off_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    """The second pull asks for the rest alone."""
    site.cut_after = 1000
    with pytest.raises(PullFailed, match="1000 of 10244 bytes; pull again to go on"):
        _pull(site, "org/repo:q8_0", tmp_path)
    site.cut_after = None
    assert GGUF == Path(_pull(site, "org/repo:q8_0", tmp_path).path).read_bytes()
    assert "bytes=1000-" == site.asked[-1][3]


def test_a_store_without_ranges_sends_all_of_it_again(site: Site, tmp_path: Path) -> None:
    """What was there is written over, not added to."""
    site.cut_after, site.ranges = 1000, False
    with pytest.raises(PullFailed):
        _pull(site, "org/repo:q8_0", tmp_path)
    site.cut_after = None
    assert GGUF == Path(_pull(site, "org/repo:q8_0", tmp_path).path).read_bytes()


def test_a_part_of_another_version_is_not_gone_on_with(site: Site, tmp_path: Path) -> None:
    """The file was replaced on the hub meanwhile: its digest is another one."""
    site.cut_after = 1000
    with pytest.raises(PullFailed):
        _pull(site, "org/repo:q8_0", tmp_path)
    site.cut_after, site.content = None, GGUF[::-1].replace(GGUF[::-1][:4], b"GGUF", 1)
    site.digest = hashlib.sha256(site.content).hexdigest()
    assert site.content == Path(_pull(site, "org/repo:q8_0", tmp_path).path).read_bytes()
    assert site.asked[-1][3] is None


def test_a_file_with_another_digest_is_refused(site: Site, tmp_path: Path) -> None:
    """And forgotten, so that the next pull begins anew."""
    site.digest = "0" * 64
    with pytest.raises(PullFailed, match="the hub says 0000"):
        _pull(site, "org/repo:q8_0", tmp_path)
    assert [] == [path for path in tmp_path.iterdir() if path.suffix != ".lock"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("org/repo:q5_0", "is not there once; it has .*m-Q4_K_M.gguf"),
        ("org/repo:f16", "is split into parts"),
        ("org/nothing:q8_0", "404"),
    ],
)
def test_a_quantisation_that_is_not_there(site: Site, tmp_path: Path, name: str, words: str) -> None:
    """The message has what there is."""
    with pytest.raises(PullFailed, match=words):
        _pull(site, name, tmp_path)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    """A file on this machine is no hub."""
    with pytest.raises(PullFailed, match="no web address"):
        pull_model("org/repo:q8_0", tmp_path, say=print, progress=lambda *_: None, hub=Hub(url="file:///etc"))
