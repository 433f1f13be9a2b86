"""The texts in a tool call's arguments, and where they stand.

Models write the arguments, and nothing says that they write JSON: a call may be cut short, give a name twice, or be one
string with escapes. What runs a call reads all of that somehow, so the texts are found by their quotes and not by what
a parser keeps. Each stands between two offsets, and everything around it stays as it was written.

A value may itself be JSON, and what a model wrote badly goes to some clients as such a value: of one that has escapes
the texts are those inside.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

_ENCODE = msgspec.json.Encoder().encode
_STRING = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()

_OPENS = ("{", "[", '"')
_PIECE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_TEXT_PIECE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[^"]++', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_NAME_ENDS = re.compile(r"[ \t\r\n]*:")
_OWN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
"""What a tool calls its arguments: its own words, and no text of anybody's."""
_SURROGATES = range(0xD800, 0xE000)
_MOST_DEPTH = 4


class ArgumentText(NamedTuple):
    """A text, and the offsets between which it stands; ``quoted`` tells that it is a JSON string there.

    Where there are texts ``inside``, they are what is said by it.
    """

    begin: int
    end: int
    text: str
    quoted: bool
    inside: tuple["ArgumentText", ...] = ()


def argument_texts(arguments: str, *, depth: int = 0) -> list[ArgumentText] | None:
    """The strings and numbers in ``arguments``, names too that are no identifiers; ``None`` where they are no JSON.

    Where they begin like JSON and are none, what stands between strings is text, too.
    """
    if not arguments.lstrip(" \t\r\n").startswith(_OPENS):
        return None
    return list(_texts(arguments, whole=_is_json(arguments), depth=depth))


def said(pieces: Iterable[ArgumentText]) -> Iterator[str]:
    """The texts, one after the other."""
    for piece in pieces:
        if piece.inside:
            yield from said(piece.inside)
        else:
            yield piece.text


def resaid(arguments: str, pieces: Iterable[ArgumentText], texts: Iterator[str]) -> str:
    """The arguments with the next of ``texts`` in the place of each that is ``said``."""
    out: list[str] = []
    at = 0
    for piece in pieces:
        new = resaid(piece.text, piece.inside, texts) if piece.inside else next(texts)
        if new != piece.text:
            out += (arguments[at : piece.begin], _written(piece, arguments, new))
            at = piece.end
    return "".join((*out, arguments[at:]))


def _written(piece: ArgumentText, arguments: str, new: str) -> str:
    """What stands in the place of ``piece`` where it says something ``new``: a string again, cut short if it was."""
    if not piece.quoted:
        return new
    was, quoted = arguments[piece.begin : piece.end], _ENCODE(new).decode()
    return quoted[:-1] if was.startswith('"') and not _is_closed(was) else quoted


def _is_json(arguments: str) -> bool:
    try:
        _ANY.decode(arguments.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _texts(arguments: str, *, whole: bool, depth: int) -> Iterator[ArgumentText]:
    for found in (_PIECE if whole else _TEXT_PIECE).finditer(arguments):
        piece = found.group()
        begin, end = found.span()
        if not piece.startswith('"'):
            if whole:
                yield ArgumentText(begin, end, _number(piece), quoted=True)
            elif any(character.isalnum() for character in piece):
                yield ArgumentText(begin, end, piece, quoted=False)
            continue
        text = _unescaped(piece)
        if not (_OWN_WORD.match(text) and _NAME_ENDS.match(arguments, end)):
            nested = argument_texts(text, depth=depth + 1) if "\\" in text and depth < _MOST_DEPTH else None
            yield ArgumentText(begin, end, text, quoted=True, inside=tuple(nested or ()))


def _number(piece: str) -> str:
    """A number as people write it: no digit is lost of a long one, and one with an exponent is written out."""
    return str(float(piece)) if "e" in piece or "E" in piece else piece


def _unescaped(piece: str) -> str:
    """What a string says, well-formed or not; half of a surrogate pair stays an escape."""
    closed = piece if _is_closed(piece) else f'{piece}"'
    try:
        return _STRING.decode(closed.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _ESCAPE.sub(_character, piece[1:].removesuffix('"') if _is_closed(piece) else piece[1:])


def _character(escape: re.Match[str]) -> str:
    digits, letter = escape.groups()
    if digits is None:
        return _ESCAPED.get(letter, letter)
    return escape.group() if int(digits, 16) in _SURROGATES else chr(int(digits, 16))


def _is_closed(piece: str) -> bool:
    """Whether a string has its end: a quote that no backslash stands before."""
    if len(piece) < len('""') or not piece.endswith('"'):
        return False
    before = piece[1:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 0
