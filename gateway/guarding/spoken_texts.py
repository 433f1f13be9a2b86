"""A whole transcript as guards see it, JSON, plain text or subtitles, and with other words in it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.guard import Text
from gateway.guarding.chained_pieces import joined, joints, resaid_pieces
from gateway.guarding.transcript import Transcript
from gateway.wire.json_edits import Path, with_values
from gateway.wire.places import beside
from gateway.wire.spoken_places import chains, gone_parts, without
from gateway.wire.upstream_json import opened_object

_ENCODE = msgspec.json.Encoder().encode
_TEXT: Path = ("text",)
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})


class SpokenTexts:
    """The texts of a transcript in JSON: ``text``, and those that its segments and words tell when they are joined."""

    __slots__ = ("_behind", "_chains", "_tree", "transcript", "unreadable")

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._chains = chains(tree)
        told = next((chain.pieces[0] for chain in self._chains if chain.paths == [_TEXT]), "")
        self._behind = [joints(chain.pieces, told) for chain in self._chains]
        wholes = [joined(chain.pieces, behind) for chain, behind in zip(self._chains, self._behind, strict=True)]
        self.transcript = Transcript([Text(whole, "text", "assistant") for whole in wholes])
        self.unreadable = "" if self._chains else "there is no transcript in it"

    def resaid(self, body: bytes, texts: Sequence[str]) -> bytes:
        """See ``AnswerTexts.resaid``. What is gone from ``text`` is gone from everything that tells it again."""
        return with_values(body, self._edits(texts))

    def _edits(self, texts: Sequence[str]) -> dict[Path, bytes]:
        gone: frozenset[str] = frozenset()
        for chain, new in zip(self._chains, texts, strict=True):
            if chain.paths == [_TEXT]:
                gone = gone_parts(chain.pieces[0], new)
        changes: dict[Path, bytes] = {}
        for chain, behind, new in zip(self._chains, self._behind, texts, strict=True):
            again = gone if chain.paths != [_TEXT] else frozenset()
            resaid = resaid_pieces(chain.pieces, behind, new)
            for path, piece, said in zip(chain.paths, chain.pieces, resaid, strict=True):
                text = without(said, again)
                if text != piece:
                    changes |= {**dict(beside(self._tree, path)), **self._tokens(path), path: _ENCODE(text)}
        return changes

    def _tokens(self, path: Path) -> dict[Path, bytes]:
        """Those of a segment, by their numbers, which tell its text again."""
        node = self._tree
        for step in path[:-1]:
            node = node[step]
        has = isinstance(node, dict) and isinstance(node.get("tokens"), list)
        return {(*path[:-1], "tokens"): b"[]"} if has else {}


class PlainTexts:
    """A transcript that is no JSON: its body is its text, subtitles with their numbers and times."""

    __slots__ = ("transcript", "unreadable")

    def __init__(self, body: bytes, content_type: str) -> None:
        charset = content_type.lower().partition("charset=")[2].partition(";")[0].strip(' "')
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = "\0"
        readable = charset in _CHARSETS and "\0" not in text
        self.transcript = Transcript([Text(text, "text", "assistant")] if readable else [])
        self.unreadable = "" if readable else "it is no text in UTF-8"

    def resaid(self, body: bytes, texts: Sequence[str]) -> bytes:
        """See ``AnswerTexts.resaid``."""
        del body
        return texts[0].encode()


def spoken_texts(body: bytes, content_type: str) -> SpokenTexts | PlainTexts:
    """Those of a transcript's body.

    Raises:
        UpstreamInvalid: it says that it is JSON, and is none.
    """
    return SpokenTexts(opened_object(body)) if is_json(body, content_type) else PlainTexts(body, content_type)


def is_json(body: bytes, content_type: str) -> bool:
    """Whether a body is JSON: some say that it is text, and their clients find out."""
    kind = _kind(content_type)
    return kind == "application/json" or kind.endswith("+json") or _is_object(body)


def is_stream(content_type: str) -> bool:
    """Whether a body of this type is events."""
    return _kind(content_type) == "text/event-stream"


def _is_object(body: bytes) -> bool:
    if not body.lstrip().startswith(b"{"):
        return False
    try:
        opened_object(body)
    except UpstreamInvalid:
        return False
    return True


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
