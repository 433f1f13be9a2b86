"""Forms with files in them, piece by piece: for files that are never in memory as a whole. See ``form_body``."""

from collections.abc import Iterator

from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.errors import InvalidRequest, UnsupportedMediaType
from gateway.wire.form_body import FORM, SILENT

_MOST_HEADERS = 16
_MOST_NAME_CHARACTERS = 512


class Part(Struct, frozen=True):
    """A part begins: the field's name, and the file's where it is one."""

    name: str
    file_name: str | None


class FormReader:
    """Takes pieces of a body and says what is in them.

    Args:
        content_type: the header, with the boundary.

    Raises:
        UnsupportedMediaType: it is no form.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind.decode("latin-1") != FORM or not boundary:
            raise UnsupportedMediaType(f"the body must be {FORM}")
        self._found: list[Part | bytes] = []
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self.complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_part_data": self._on_part_data,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_end": self._on_end,
                },
                max_header_count=_MOST_HEADERS,
            )
            self._parser.logger = SILENT
        except FormParserError:
            raise UnsupportedMediaType("the boundary of the form is too long") from None

    def feed(self, data: bytes) -> Iterator[Part | bytes]:
        """Parts that begin in ``data``, and what is in them.

        Raises:
            InvalidRequest: it is no form.
        """
        try:
            self._parser.write(data)
        except FormParserError:
            raise InvalidRequest("the form cannot be read: it is cut short or badly made") from None
        found, self._found = self._found, []
        yield from found

    def _on_part_begin(self) -> None:
        self._disposition = b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name, file_name = options.get(b"name", b""), options.get(b"filename")
        self._found.append(Part(_text(name), None if file_name is None else _text(file_name)))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._found.append(data[start:end])

    def _on_end(self) -> None:
        self.complete = True


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")[:_MOST_NAME_CHARACTERS]
