"""Bodies in parts: what httpx writes is read, and what is wrong is refused by a sentence."""

from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest, UnsupportedEncoding
from inferstream.protos.multipart import MAX_BOUNDARY_LENGTH, MAX_HEAD_LENGTH, MAX_PARTS, FormPart, parts_of

FORM = b"multipart/form-data; boundary=x"
HEAD = b'Content-Disposition: form-data; name="a"'


def body(*parts: bytes) -> bytes:
    return b"".join(b"--x\r\n%b\r\n" % part for part in parts) + b"--x--\r\n"


@given(
    content=st.binary(max_size=300),
    name=st.text(st.characters(exclude_categories=["C"], exclude_characters='"\\'), min_size=1, max_size=9),
    file=st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=9),
    text=st.text(max_size=20),
)
def test_httpx_multipart_is_read(content: bytes, name: str, file: str, text: str) -> None:
    asked = httpx.Request("POST", "http://x", files={name: (file, content)}, data={"text": text})
    found = parts_of(asked.headers["content-type"].encode(), asked.read())
    assert found[0] == FormPart("text", text.encode())
    assert found[1][:2] == (name, content)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"", ""),
        (b"\r\nContent-Type: application/json", "application/json"),
        (b"\r\ncontent-type:Text/Plain; charset=utf-8", "text/plain"),
        (b"\r\nContent-Type: nothing", ""),
    ],
)
def test_media_type_of_a_part(header: bytes, expected: str) -> None:
    assert parts_of(FORM, body(HEAD + header + b"\r\n\r\ncontent")) == [FormPart("a", b"content", expected)]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_parsed_or_refused(content: bytes) -> None:
    for whole in (content, body(content), body(HEAD + content), body(HEAD + b"\r\n\r\n" + content)):
        with suppress(InvalidRequest):
            assert all(isinstance(part, FormPart) for part in parts_of(FORM, whole))


@pytest.mark.parametrize(
    "media_type",
    [
        b"",
        b"application/json",
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b"multipart/mixed; boundary=x",
        b"multipart/form-data; " * 100_000,
    ],
)
def test_body_of_another_media_type_is_refused(media_type: bytes) -> None:
    with pytest.raises(UnsupportedEncoding, match="must be multipart/form-data"):
        parts_of(media_type, body(HEAD + b"\r\n\r\n1"))


@pytest.mark.parametrize(
    "media_type",
    [FORM, b'Multipart/Form-Data;boundary="x"', b"multipart/form-data; charset=utf-8; boundary=x; a=b"],
)
def test_media_type_spellings(media_type: bytes) -> None:
    assert parts_of(media_type, body(HEAD + b"\r\n\r\n1", HEAD + b"\r\n\r\n")) == [
        FormPart("a", b"1"),
        FormPart("a", b""),
    ]


@pytest.mark.parametrize(
    ("whole", "sentence"),
    [
        (b"", "does not begin with its boundary"),
        (b"\r\n" * 9, "does not begin with its boundary"),
        (b"--xy", "neither a part nor the end"),
        (b"--x\r\n" + HEAD + b"\r\n\r\n1", "does not end with its boundary"),
        (b"--x\r\n" + HEAD + b"\r\n\r\n" + b"\r\n--" * 100_000, "does not end with its boundary"),
        (body(b""), "no headers, or more"),
        (body(b"\r\n1"), "no headers, or more|needs one header"),
        (body(HEAD + b"; b=" + b"c" * MAX_HEAD_LENGTH + b"\r\n\r\n1"), f"more than {MAX_HEAD_LENGTH} bytes"),
        (body(b"Content-Type: text/plain\r\n\r\n1"), "needs one header"),
        (body(HEAD + b"\r\n" + HEAD + b"\r\n\r\n1"), "needs one header"),
        (body(HEAD + b'; name="b"\r\n\r\n1'), "has no name, or parameters that"),
        (body(HEAD + b'; filename="b\r\n\r\n1'), "has no name, or parameters that"),
        (body(HEAD.replace(b'"a"', b'"\xff"') + b"\r\n\r\n1"), "not UTF-8"),
        (body(*[HEAD + b"\r\n\r\n1"] * (MAX_PARTS + 1)), f"more than {MAX_PARTS} parts"),
    ],
)
def test_invalid_multipart_is_refused(whole: bytes, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        parts_of(FORM, whole)


def test_name_within_a_filename_is_ignored() -> None:
    head = HEAD + rb'; filename="b\"; name=\"model\".wav"'
    [part] = parts_of(FORM, body(head + b"\r\n\r\n1"))
    assert part == FormPart("a", b"1", "", r"b\"; name=\"model\".wav")


def test_boundary_length_is_limited() -> None:
    long = b"x" * (MAX_BOUNDARY_LENGTH + 1)
    with pytest.raises(InvalidRequest, match="longer than 70 characters"):
        parts_of(b"multipart/form-data; boundary=" + long, b"--" + long + b"--")
