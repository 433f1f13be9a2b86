"""JSON Lines as batches have them: the pieces of a file become numbered lines, and a line becomes a request.

Lines end at LF, or CR LF; those with nothing but blanks are none, but they count. Numbers begin at 1.
"""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

MOST_ID_CHARACTERS = 512

_BOM = b"\xef\xbb\xbf"
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_TEXT = msgspec.json.Decoder(str)
_TRUE = b"true"
_BLANK_LINES = re.compile(rb"(?:[ \t\r\v\f]*+\n)++")


class LineFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong with a line, in the words of OpenAI's ``errors.data``; ``line`` is ``None`` for the whole file."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchLine(Struct, frozen=True, kw_only=True):
    """One request: its line's ``number``, the client's name for it, the model it asks for, and its body as it came."""

    number: int
    custom_id: str
    model: str
    body: bytes


class LineSplitter:
    """Takes a file by pieces of any size. Of a line with more than ``max_line_bytes`` nothing is kept."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._begun: list[bytes] = []
        self._length_bytes = 0
        self._number = 1

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes | None]]:
        """The lines that end in ``piece``: number and bytes, ``None`` for one that is too long."""
        at = 0
        while True:
            if not self._length_bytes and (blank := _BLANK_LINES.match(piece, at)) is not None:
                self._number += piece.count(b"\n", at, blank.end())  # one by one, millions of them would take minutes
                at = blank.end()
            end = piece.find(b"\n", at)
            if end < 0:
                break
            self._keep(piece[at:end])
            yield from self._line()
            at = end + 1
        self._keep(piece[at:])

    def end(self) -> Iterator[tuple[int, bytes | None]]:
        """The last line, where no line end follows it."""
        yield from self._line()

    def _keep(self, part: bytes) -> None:
        self._length_bytes += len(part)
        if self._length_bytes > self._max_line_bytes:
            self._begun.clear()
        else:
            self._begun.append(part)

    def _line(self) -> Iterator[tuple[int, bytes | None]]:
        number, too_long, line = self._number, self._length_bytes > self._max_line_bytes, b"".join(self._begun)
        self._number += 1
        self._begun, self._length_bytes = [], 0
        if number == 1:
            line = line.removeprefix(_BOM)
        if too_long:
            yield number, None
        elif line and not line.isspace():
            yield number, line


def read_line(number: int, line: bytes | None, endpoint: str) -> BatchLine | LineFault:
    """The request of a line that belongs to a batch for ``endpoint``, or what is wrong with it. Never raises."""
    if line is None:
        return LineFault(code="line_too_large", message="The line is longer than a request may be.", line=number)
    try:
        line.decode()  # the parser passes over what it keeps raw
        fields = _FIELDS.decode(line)
    except msgspec.ValidationError:
        return LineFault(code="invalid_request", message="The line must be a JSON object.", line=number)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return LineFault(code="invalid_json_line", message="This line is not parseable as valid JSON.", line=number)
    found = _request(number, fields, endpoint)
    return found if isinstance(found, BatchLine) else LineFault(**{**found, "line": number})  # type: ignore[arg-type]  # its own fields


def _request(number: int, fields: dict[str, Raw], endpoint: str) -> BatchLine | dict[str, str]:
    custom_id = _text(fields.get("custom_id"))
    if not custom_id or len(custom_id) > MOST_ID_CHARACTERS:
        words = f"custom_id must be a string of 1 to {MOST_ID_CHARACTERS} characters."
        return {"code": "invalid_request" if "custom_id" in fields else "missing_required_parameter",
                "message": words, "param": "custom_id"}  # fmt: skip
    for name in ("method", "url", "body"):
        if name not in fields:
            return {"code": "missing_required_parameter", "message": f"{name} is missing.", "param": name}
    if _text(fields["method"]) != "POST":
        return {"code": "invalid_method", "message": "method must be POST.", "param": "method"}
    if _text(fields["url"]) != endpoint:
        return {"code": "url_mismatch", "message": f"url must be the batch's endpoint, {endpoint}.", "param": "url"}
    return _body(number, custom_id, bytes(fields["body"]))


def _body(number: int, custom_id: str, body: bytes) -> BatchLine | dict[str, str]:
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {"code": "invalid_request", "message": "body must be a JSON object.", "param": "body"}
    model = _text(fields.get("model"))
    if not model:
        return {"code": "model_not_found", "message": "body.model must name a model.", "param": "body.model"}
    if bytes(fields.get("stream") or b"").strip() == _TRUE:
        words = "Answers of a batch cannot be streamed."
        return {"code": "invalid_request", "message": words, "param": "body.stream"}
    return BatchLine(number=number, custom_id=custom_id, model=model, body=body)


def _text(value: Raw | None) -> str:
    """The string; empty where it is none."""
    try:
        return "" if value is None else _TEXT.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
