"""The one string in the arguments of a custom tool that had to be told as a function, as the model writes it."""

import re

import msgspec

FIELD = "input"
"""What the string is called among the function's arguments."""

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PIECE = re.compile(
    r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]', re.DOTALL
)
_HALF_A_PAIR = re.compile(r"\\u[dD][89abAB]")
_ESCAPE_CHARS = len("\\uXXXX")
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class CustomInput:
    """Takes arguments in fragments, cut anywhere, and gives the text of the string.

    What is no such object (``{"input": "..."}``) is given whole at the end, as the model wrote it: nothing is lost.
    """

    __slots__ = ("_closed", "_held", "_open")

    def __init__(self) -> None:
        self._held = ""
        self._open = False
        self._closed = False

    def feed(self, text: str) -> str:
        """More of the arguments; returns what can be told of the string now."""
        if self._closed:
            return ""
        self._held += text
        if not self._open:
            opening = _OPENING.match(self._held)
            if opening is None:
                return ""
            self._open, self._held = True, self._held[opening.end() :]
        return self._taken()

    def end(self) -> str:
        """The arguments are over: what was held back."""
        held, self._held = self._held, ""
        if self._closed or self._open:
            return "" if self._closed else held
        return _found(held)

    def _taken(self) -> str:
        """The text up to the closing quote, or to an escape that is not whole yet."""
        out: list[str] = []
        held, at = self._held, 0
        while at < len(held):
            piece = _PIECE.match(held, at)
            if piece is None and held[at] == '"':
                self._closed = True
                break
            if piece is None and len(held) - at >= _ESCAPE_CHARS:  # no escape at all
                out.append("\\")
                at += 1
                continue
            if piece is None or _may_pair(piece[0], held, piece.end()):
                break
            out.append(_decoded(piece[0]))
            at = piece.end()
        self._held = "" if self._closed else held[at:]
        return "".join(out)


def _may_pair(piece: str, held: str, end: int) -> bool:
    """Whether a piece is the first half of a character whose second half may still come."""
    rest = held[end : end + _ESCAPE_CHARS]
    half = _HALF_A_PAIR.match(piece) is not None and len(piece) == _ESCAPE_CHARS
    return half and len(rest) < _ESCAPE_CHARS and "\\u".startswith(rest[:2])


def _decoded(piece: str) -> str:
    if piece[0] != "\\":
        return piece
    if piece[1] != "u":
        return _SHORT.get(piece[1], piece[1])
    if len(piece) == _ESCAPE_CHARS:
        code = int(piece.removeprefix("\\u"), 16)
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)  # noqa: PLR2004  # the surrogates' range
    return (piece.encode("ascii").decode("unicode_escape")).encode("utf-16", "surrogatepass").decode("utf-16")


def _found(arguments: str) -> str:
    """The string in arguments that begin in another way, else the arguments themselves."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    text = value.get(FIELD) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
