"""Downloads model files from a hub that speaks Hugging Face's HTTP.

A file lives at `{hub}/{repository}/resolve/main/{file}`. For large ones the hub redirects to another host and says in
`X-Linked-Etag` what the file's SHA-256 is and in `X-Linked-Size` how long it is; both are checked. The token goes to
the hub alone, never to where it redirects. A download that was broken off goes on where it stopped, as long as the hub
has the same file.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from socket import gaierror
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from embedded_engine.errors import EngineError

__all__ = ["HUB_URL", "Hub", "HubFile", "Progress", "PullFailed"]

HUB_URL = "https://huggingface.co"

_BLOCK_BYTES = 1 << 20
_TIMEOUT_S = 30.0
_MOST_REDIRECTS = 5
_GGUF_MAGIC = b"GGUF"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf\Z")
_PARTIAL, _RANGE_WRONG = 206, 416
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and, where it is known, how many there will be."""


class PullFailed(EngineError):
    """The model could not be got; the message says why and what to do."""

    code = "pull_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of the hub on this machine."""

    path: Path
    url: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Where models are looked up, and as whom.

    Attributes:
        url: The hub's address.
        token: For repositories that not everybody may read; None: as nobody.
    """

    url: str = HUB_URL
    token: str | None = field(default=None, repr=False)

    def find(self, repository: str, quantisation: str) -> str:
        """The file of a repository that is quantised so.

        Raises:
            PullFailed: There is none, there are several, or the hub cannot be asked.
        """
        url = f"{self.url}/api/models/{quote(repository)}"
        try:
            with _get(url, self._headers()) as answer:
                listing: Any = json.load(answer)
            names = [str(entry["rfilename"]) for entry in listing["siblings"]]
        except (URLError, HTTPException, OSError) as error:
            raise PullFailed(f"{url} cannot be read: {_why(error)}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise PullFailed(f"{url} is no list of files") from error
        files = [name for name in names if name.lower().endswith(".gguf") and "mmproj" not in name.lower()]
        found = [name for name in files if re.search(rf"(?i)(^|[-_.]){re.escape(quantisation)}([-_.]|$)", name)]
        whole = [name for name in found if not _SPLIT.search(name)]
        if len(whole) != 1:
            why = "is split into parts, which must be joined first" if found and not whole else "is not there once"
            listed = ", ".join(sorted(found or files)[:20]) or "no GGUF files"
            raise PullFailed(f"{repository} in {quantisation} {why}; it has {listed}. Name one: hf:{repository}/FILE")
        return whole[0]

    def download(self, repository: str, file: str, folder: Path, progress: Progress) -> HubFile:
        """The file, in `folder`, where a part of it stays if the download breaks off.

        Raises:
            PullFailed: It cannot be had, or is not what it should be.
        """
        url = f"{self.url}/{quote(repository)}/resolve/main/{quote(file)}"
        try:
            return self._download(url, folder, progress)
        except (URLError, HTTPException, OSError) as error:
            raise PullFailed(f"{url} cannot be downloaded: {_why(error)}") from error

    def _download(self, url: str, folder: Path, progress: Progress) -> HubFile:
        place, headers, told = _follow(url, self._headers())
        part = folder / f".part-{hashlib.sha256((url + told.etag).encode()).hexdigest()[:24]}"
        done = part.stat().st_size if part.exists() else 0
        ranged = {**headers, "Range": f"bytes={done}-"} if done else headers
        try:
            answer = _get(place, ranged)
        except HTTPError as error:
            if error.code != _RANGE_WRONG:
                raise
            part.unlink()  # longer than the file is now: from the beginning
            done, answer = 0, _get(place, headers)
        with answer, part.open("ab" if answer.status == _PARTIAL else "wb") as out:
            if answer.status != _PARTIAL:
                done = 0
            left = answer.headers.get("Content-Length")
            size = told.size if told.size is not None else done + int(left) if left else None
            _copy(answer, out, done, size, progress)
        return _checked(part, url, told)

    def _headers(self) -> dict[str, str]:
        return {"User-Agent": "headrace", **({"Authorization": f"Bearer {self.token}"} if self.token else {})}


@dataclass(frozen=True, slots=True)
class _Told:
    """What the hub says of a file before it sends it."""

    etag: str = ""
    size: int | None = None


class _NoRedirects(HTTPRedirectHandler):
    """Redirects are followed by hand: this library would take the token along."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """None, which makes an error of it."""


_opener = build_opener(_NoRedirects)


def _open(url: str, headers: Mapping[str, str], method: str = "GET") -> Any:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise URLError(f"{url} is no web address")
    request = Request(url, headers=dict(headers), method=method)  # noqa: S310  # checked above
    try:
        return _opener.open(request, timeout=_TIMEOUT_S)
    except HTTPError as error:
        error.close()  # nobody reads what it says; its head stays
        raise


def _follow(url: str, headers: dict[str, str]) -> tuple[str, dict[str, str], _Told]:
    """Where the file really is, the headers to ask for it there, and what the hub says of it.

    Another host is not asked: the address that it is given may be good for one kind of request only.
    """
    told = _Told()
    for _ in range(_MOST_REDIRECTS):
        try:
            with _open(url, headers, "HEAD") as answer:
                return url, headers, told if told.etag else _told(answer.headers)
        except HTTPError as error:
            there = _redirected(url, error)
            told = told if told.etag else _told(error.headers)
        if urlsplit(there).netloc != urlsplit(url).netloc:
            return there, {name: value for name, value in headers.items() if name != "Authorization"}, told
        url = there
    raise URLError("the hub redirects again and again")


def _get(url: str, headers: dict[str, str]) -> Any:
    for _ in range(_MOST_REDIRECTS):
        try:
            return _open(url, headers)
        except HTTPError as error:
            there = _redirected(url, error)
        if urlsplit(there).netloc != urlsplit(url).netloc:
            headers = {name: value for name, value in headers.items() if name != "Authorization"}
        url = there
    raise URLError("the hub redirects again and again")


def _redirected(url: str, error: HTTPError) -> str:
    """Where an answer sends us; raises it where it does not."""
    location = error.headers.get("Location")
    if error.code not in _REDIRECTS or not location:
        raise error
    return urljoin(url, location)


def _told(headers: Message) -> _Told:
    """Of a redirect only what it says of the file behind it: its own length is not the file's."""
    etag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
    own_size = "" if headers.get("Location") else headers.get("Content-Length") or ""
    size = headers.get("X-Linked-Size") or own_size
    return _Told(etag.removeprefix("W/").strip('"'), int(size) if size.isdigit() else None)


def _checked(part: Path, url: str, told: _Told) -> HubFile:
    """The file if it is what it should be; else it is removed, so that the next pull begins anew."""
    with part.open("rb") as file:
        magic = file.read(len(_GGUF_MAGIC))
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if magic != _GGUF_MAGIC:
        part.unlink()
        raise PullFailed(f"{url} is no GGUF file")
    if _SHA256.fullmatch(told.etag) and digest != told.etag:
        part.unlink()
        raise PullFailed(f"{url}: the file's SHA-256 is {digest}, and the hub says {told.etag}")
    return HubFile(path=part, url=url, sha256=digest)


def _copy(source: IO[bytes], target: IO[bytes], done: int, size: int | None, progress: Progress) -> None:
    while block := source.read(_BLOCK_BYTES):
        target.write(block)
        done += len(block)
        progress(done, size)
    if size is not None and done != size:
        raise OSError(f"the connection ended after {done} of {size} bytes; pull again to go on")


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(error, HTTPError):
        return f"the hub answers {error.code} ({error.reason}): is there such a file, and may anybody read it?"
    if isinstance(reason, gaierror):
        return "the hub's address is not found: is there a network here?"
    if isinstance(reason, TimeoutError):
        return f"the hub says nothing for {_TIMEOUT_S:g} s"
    said = reason.strerror if isinstance(reason, OSError) else ""
    return said or str(reason) or type(reason).__name__
