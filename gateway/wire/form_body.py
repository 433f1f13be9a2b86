"""Forms with files in them: ``multipart/form-data`` (RFC 7578), looked at where it lies and passed on as it came.

Such a body is in memory as a whole anyway, since another backend may have to get it; see ``form_stream`` for others.
"""

import logging
import re
from typing import TYPE_CHECKING

from msgspec import Struct
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import InvalidRequest
from gateway.types import Form
from gateway.wire.openai_fields import MOST_MODEL_CHARACTERS

if TYPE_CHECKING:  # the parser's own types are there for checkers alone
    from python_multipart.multipart import MultipartCallbacks

FORM = "multipart/form-data"
_MODEL = "model"
_MOST_PARTS = 256
_MOST_BOUNDARY_BYTES = 256
_MOST_TEXT_BYTES = 64 * 1024
"""A field that is longer is nothing that we look at."""

_PARAMETER = re.compile(r';[ \t]*(?P<name>[^\s;="]+)[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^;]*)')
"""A parameter of a header. Of one that is there twice, or in its extended form (``name*``), readers take either."""

SILENT = logging.getLogger("gateway.wire.form_body")
"""In the place of the parser's own, which gets a line for whatever clients get wrong."""
SILENT.disabled = True


class Part(Struct, gc=False):
    """One part: its name, whether it is a file, and from where to where its content stands."""

    name: str = ""
    is_file: bool = False
    start: int = 0
    end: int = 0


class ReadForm(Struct, frozen=True, kw_only=True):
    """A form and what its short fields say; of those that come several times, what was said first."""

    form: Form
    fields: dict[str, str]


def is_form(content_type: str) -> bool:
    """Whether a body of this type is a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


def read_form(body: bytes, content_type: str) -> ReadForm:
    """The form in a body.

    Raises:
        InvalidRequest: it is none, is cut short, names two models, or may be read in two ways.
    """
    if not _says_once(content_type, "boundary"):
        raise InvalidRequest("the header content-type names two boundaries")
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not 1 <= len(boundary) <= _MOST_BOUNDARY_BYTES:
        raise InvalidRequest(f"a body of {FORM} needs its boundary in the header content-type")
    delimiter = b"--" + boundary
    # What is cut short, or made of nothing but delimiters, would cost the parser a step of Python for every few bytes.
    if delimiter + b"--" not in body:
        raise InvalidRequest("the form is cut short: its last boundary is missing")
    if body.count(delimiter) > _MOST_PARTS + 1:
        raise InvalidRequest(f"the form has more than {_MOST_PARTS} parts")
    parts = _parts(body, boundary)
    # Others find a delimiter at the beginning of any line, behind the last one and where a part has lines of LF, too.
    if body.count(b"\n" + delimiter) + body.startswith(delimiter) != len(parts) + 1:
        raise InvalidRequest("the boundary of the form stands within a part of it")
    models = [part for part in parts if part.name == _MODEL]
    if len(models) > 1:
        raise InvalidRequest("the form names its model twice", param=_MODEL)
    if models and models[0].is_file:
        raise InvalidRequest("model must be a field of the form, not a file", param=_MODEL)
    form = Form(
        body=body,
        boundary=boundary,
        begin=body.index(delimiter),
        model_span=(models[0].start, models[0].end) if models else None,
        file_bytes=sum(part.end - part.start for part in parts if part.is_file),
    )
    return ReadForm(form=form, fields=_fields(body, parts))


def form_with_model(form: Form, model: str) -> bytes:
    """The form with another model in the place of its own, or in front where it has none; every other byte stays."""
    name = model.encode()
    body = memoryview(form.body)
    if form.model_span is None:
        part = b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        added = part % (form.boundary, _MODEL.encode(), name)
        return b"".join((body[: form.begin], added, body[form.begin :]))
    start, end = form.model_span
    if body[start:end] == name:
        return form.body
    return b"".join((body[:start], name, body[end:]))


def _says_once(header: str, name: str) -> bool:
    """Whether a header has a parameter at most once, so that every reader finds the same in it."""
    names = [found["name"].lower() for found in _PARAMETER.finditer(header)]
    return names.count(name) <= 1 and not any(known.startswith(f"{name}*") for known in names)


def _fields(body: bytes, parts: list[Part]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in parts:
        if part.is_file or part.name in fields or part.end - part.start > _MOST_TEXT_BYTES:
            continue
        try:
            fields[part.name] = body[part.start : part.end].decode()
        except UnicodeDecodeError:
            if part.name == _MODEL:
                raise InvalidRequest("model is not valid UTF-8", param=_MODEL) from None
    model = fields.get(_MODEL)
    if model is not None and not 1 <= len(model) <= MOST_MODEL_CHARACTERS:
        raise InvalidRequest(f"model must be of 1 to {MOST_MODEL_CHARACTERS} characters", param=_MODEL)
    return fields


def _parts(body: bytes, boundary: bytes) -> list[Part]:
    """All parts, in the order in which they came."""
    reader = _Reader()
    parser = MultipartParser(boundary, reader.callbacks())
    parser.logger = SILENT
    try:
        parser.write(body)
        parser.finalize()
    except (MultipartParseError, UnicodeDecodeError):
        raise InvalidRequest(f"the request body is not valid {FORM}") from None
    if not reader.ended:
        raise InvalidRequest("the form is cut short: its last boundary is missing")
    return reader.parts


class _Reader:
    """What the parser calls. It gets the whole body in one go, so that places in what it hands out are places there."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.ended = False
        self._name = b""
        self._disposition = b""
        self._dispositions = 0

    def callbacks(self) -> "MultipartCallbacks":
        """By the parser's names."""
        return {
            "on_part_begin": self._begin,
            "on_header_begin": self._header,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_headers_finished": self._headers_over,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self.parts.append(Part())
        self._disposition = b""
        self._dispositions = 0

    def _header(self) -> None:
        self._name = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = data[start:end]
            self._dispositions += 1

    def _headers_over(self) -> None:
        disposition = self._disposition.decode("latin-1")
        if self._dispositions > 1 or not _says_once(disposition, "name"):
            raise InvalidRequest("a part of the form has two names")
        _, options = parse_options_header(disposition)
        part = self.parts[-1]
        part.name = options.get(b"name", b"").decode("utf-8", "replace")
        part.is_file = b"filename" in options or "filename*" in disposition.lower()

    def _data(self, _: bytes, start: int, end: int) -> None:
        part = self.parts[-1]
        part.start, part.end = part.start or start, end

    def _end(self) -> None:
        self.ended = True
