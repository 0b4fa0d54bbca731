"""How bodies become parts, and answers heads."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.torchserve.dialect import _fields, build_headers
from inferstream.plugins.torchserve.envelope import PostedField, RowAnswer

PARTS = (
    b'--x\r\nContent-Disposition: form-data; name="data"; filename="a.json"\r\nContent-Type: application/json\r\n\r\n'
    b'{}\r\n--x\r\nContent-Disposition: form-data; name="more"\r\n\r\ntext\r\n--x--\r\n'
)


@pytest.mark.parametrize(
    ("media_type", "body", "expected"),
    [
        (b"", b"\xff", [PostedField("body", "", b"\xff")]),
        (b"Application/JSON; charset=utf-8", b"{}", [PostedField("body", "application/json", b"{}")]),
        (
            b"application/x-www-form-urlencoded",
            b"data=a%20b&more=&%C3%A4=%C3%A4%FF",
            [
                PostedField("data", "", b"a b"),
                PostedField("more", "", b""),
                PostedField("ä", "", "ä".encode() + b"\xff"),
            ],
        ),
        (
            b"multipart/form-data; boundary=x",
            PARTS,
            [PostedField("data", "application/json", b"{}"), PostedField("more", "", b"text")],
        ),
    ],
)
def test_bodies(media_type: bytes, body: bytes, expected: list[PostedField]) -> None:
    assert _fields(media_type, body) == expected


def test_many_parts_and_invalid_names() -> None:
    for media_type, body in (
        (b"application/x-www-form-urlencoded", b"a=1&" * 1000),
        (b"application/x-www-form-urlencoded", b"%FF=1"),
        (b"application/x-www-form-urlencoded", b"\xff=1"),
        (
            b"multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 1000,
        ),
    ):
        with pytest.raises(InvalidRequest):
            _fields(media_type, body)


def test_heads_contain_only_valid_headers() -> None:
    headers = {"x-more": "1", "content-length": "7", "x-split": "a\r\nb: c"}
    assert build_headers(RowAnswer(b"", "image/png", 200, headers)) == [
        (b"content-type", b"image/png"),
        (b"x-more", b"1"),
    ]
    assert build_headers(RowAnswer(b"", "image/png\r\nx: y")) == []
