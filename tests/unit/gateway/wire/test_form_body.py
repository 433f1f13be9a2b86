import string
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire.form_body import form_with_model, is_form, read_form

BOUNDARY = "----7MA4YWxkTrZu0gW"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
FILE = b"RIFF\x00\xff\r\n--\r\n--" + BOUNDARY.encode()[:-1] + b"\r\n\x00"


class Field(NamedTuple):
    """A part of a form; a file where it has the name of one."""

    name: str
    content: bytes
    filename: str | None = None

    def bytes(self) -> bytes:
        """Its head and its content."""
        said = f'Content-Disposition: form-data; name="{self.name}"'
        if self.filename is not None:
            said += f'; filename="{self.filename}"\r\nContent-Type: application/octet-stream'
        return said.encode() + b"\r\n\r\n" + self.content


def form(*fields: Field, boundary: str = BOUNDARY, before: bytes = b"", after: bytes = b"\r\n") -> bytes:
    """A body with these fields."""
    delimiter = b"--" + boundary.encode()
    parts = b"".join(delimiter + b"\r\n" + field.bytes() + b"\r\n" for field in fields)
    return before + parts + delimiter + b"--" + after


MODEL = Field("model", b"whisper-1")
SOUND = Field("file", FILE, "speech.wav")


@pytest.mark.parametrize(
    "fields",
    [
        (SOUND, MODEL),
        (MODEL, SOUND),
        (MODEL,),
        (Field("image[]", b"a", "a.png"), MODEL, Field("image[]", b"b", "b.png")),
    ],
)
def test_only_the_model_is_replaced(fields: tuple[Field, ...]) -> None:
    """Wherever it stands; every other byte is the client's, files and all."""
    body = form(*fields, before=b"\r\n", after=b"\r\nan epilogue")
    read = read_form(body, TYPE)
    other = form(
        *(Field("model", b"other/m\xc3\xb6del") if field is MODEL else field for field in fields),
        before=b"\r\n", after=b"\r\nan epilogue",
    )  # fmt: skip
    assert other == form_with_model(read.form, "other/mödel")
    assert body is form_with_model(read.form, "whisper-1")
    assert "whisper-1" == read.fields["model"]


def test_a_model_is_put_in_where_there_is_none() -> None:
    """In front of everything that the client sent."""
    read = read_form(form(SOUND), TYPE)
    assert form(Field("model", b"m"), SOUND) == form_with_model(read.form, "m")


def test_short_fields_are_read_and_files_are_measured() -> None:
    """Of a field that comes twice the first counts; what is no text is nobody's to read."""
    body = form(MODEL, SOUND, Field("n", b"2"), Field("n", b"3"), Field("raw", b"\xff"), Field("long", b"x" * 70_000))
    read = read_form(body, TYPE)
    assert {"model": "whisper-1", "n": "2"} == read.fields
    assert len(FILE) == read.form.file_bytes


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (form(MODEL), "multipart/form-data", "needs its boundary"),
        (form(MODEL), "multipart/form-data; boundary=", "needs its boundary"),
        (form(MODEL), f"multipart/form-data; boundary={'x' * 300}", "needs its boundary"),
        (form(MODEL), "multipart/form-data; boundary=other", "cut short"),
        (form(MODEL)[:-5], TYPE, "cut short"),
        (b"", TYPE, "cut short"),
        (form(MODEL, MODEL), TYPE, "names its model twice"),
        (form(Field("model", b"")), TYPE, "1 to 256"),
        (form(Field("model", b"x" * 257)), TYPE, "1 to 256"),
        (form(Field("model", b"\xff")), TYPE, "UTF-8"),
        (form(*[Field("a", b"")] * 300), TYPE, "more than 256 parts"),
        (b"nonsense" + form(MODEL), TYPE, "not valid"),
        (form(MODEL).replace(b"Content-Disposition:", b"Content Disposition:"), TYPE, "not valid"),
    ],
)
def test_what_is_no_form_is_refused(body: bytes, content_type: str, words: str) -> None:
    """With one class of error, and words that quote nothing of it."""
    with pytest.raises(InvalidRequest, match=words):
        read_form(body, content_type)


def part(head: str, content: bytes = b"dear") -> bytes:
    """A form with a part of this head in front of its model."""
    delimiter = b"--" + BOUNDARY.encode() + b"\r\n"
    return delimiter + head.encode() + b"\r\n\r\n" + content + b"\r\n" + form(MODEL)


NAMED = 'Content-Disposition: form-data; name="x"'
HIDDEN = b'a\n--%b\nContent-Disposition: form-data; name="model"\n\ndear' % BOUNDARY.encode()


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (form(MODEL), f"{TYPE}; boundary=other", "two boundaries"),
        (form(MODEL), f"multipart/form-data; boundary*=utf-8''other; boundary={BOUNDARY}", "two boundaries"),
        (part(f'{NAMED}; name="model"'), TYPE, "two names"),
        (part('Content-Disposition: form-data; name="model"; name="x"'), TYPE, "two names"),
        (part(f"{NAMED}; name*=utf-8''model"), TYPE, "two names"),
        (part(f'{NAMED}\r\nContent-Disposition: form-data; name="model"'), TYPE, "two names"),
        (form(Field("model", b"dear", ""), MODEL), TYPE, "names its model twice"),
        (form(Field("model", b"dear", "a.txt")), TYPE, "not a file"),
        (form(Field("file", HIDDEN, "a.wav"), MODEL), TYPE, "within a part"),
        (form(MODEL) + form(Field("model", b"dear")), TYPE, "within a part"),
        (b"\r\nno line of its own " + form(MODEL), TYPE, "within a part"),
    ],
)
def test_what_two_readers_may_read_in_two_ways_is_refused(body: bytes, content_type: str, words: str) -> None:
    """Else the model that is allowed, counted and paid here might not be the one that the upstream serves."""
    with pytest.raises(InvalidRequest, match=words):
        read_form(body, content_type)


@pytest.mark.parametrize(
    "head", [NAMED, f'{NAMED}; filename="a; name=b\\".wav"', f"{NAMED}; filename*=utf-8''%C3%A9.wav"]
)
def test_a_file_may_be_called_what_it_likes(head: str) -> None:
    """In either form, and though its name looks like another parameter; what has one is a file."""
    read = read_form(part(head, b"12345"), TYPE)
    assert (5 if "filename" in head else 0) == read.form.file_bytes


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [(TYPE, True), ("Multipart/Form-Data;boundary=x", True), ("application/json", False), ("", False)],
)
def test_a_form_is_known_by_its_type(content_type: str, expected: bool) -> None:
    """In whatever case it is written."""
    assert expected is is_form(content_type)


@given(
    before=st.lists(st.tuples(st.sampled_from(["file", "image", "mask"]), st.binary(max_size=200)), max_size=3),
    after=st.lists(st.tuples(st.sampled_from(["file", "language", "n"]), st.binary(max_size=200)), max_size=3),
    model=st.text(min_size=1, max_size=20),
    other=st.text(min_size=1, max_size=20),
    boundary=st.from_regex(r"[A-Za-z0-9'()+_,./:=?-]{1,40}", fullmatch=True),
)
def test_a_round_trip_changes_nothing_but_the_model(
    before: list[tuple[str, bytes]], after: list[tuple[str, bytes]], model: str, other: str, boundary: str
) -> None:
    """Whatever is in the files, whatever the boundary is; and back again it is the same body."""
    contents = [content for _, content in (*before, *after)] + [
        model.encode("utf-8", "replace"),
        other.encode("utf-8", "replace"),
    ]
    # No client would choose a boundary that is in what it sends.
    assume(not any(b"--" + boundary.encode() in b"\r\n" + content + b"\r\n" for content in contents))
    name, replaced = (text.encode("utf-8", "replace").decode() for text in (model, other))

    def made(model: str) -> bytes:
        return form(
            *(Field(name, content, "f") for name, content in before),
            Field("model", model.encode()),
            *(Field(name, content) for name, content in after),
            boundary=boundary,
        )

    content_type = f'multipart/form-data; boundary="{boundary}"'
    read = read_form(made(name), content_type)
    sent = form_with_model(read.form, replaced)
    assert made(replaced) == sent
    assert made(name) == form_with_model(read_form(sent, content_type).form, name)


@given(body=st.binary(max_size=400), content_type=st.one_of(st.just(TYPE), st.text(string.printable, max_size=60)))
def test_no_body_breaks_the_reader(body: bytes, content_type: str) -> None:
    """It is a form, or it is refused."""
    for one in (body, form(MODEL)[: len(body)] + body, form(SOUND, MODEL, before=body)):
        try:
            read = read_form(one, content_type)
        except InvalidRequest:
            continue
        assert read.form.body == one
