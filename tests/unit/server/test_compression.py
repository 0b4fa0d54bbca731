"""Whole bodies in gzip and deflate, and small data that would become large."""

import zlib

import pytest

from inferstream.errors import InvalidRequest, PayloadTooLarge
from inferstream.server.compression import DEFLATE, GZIP, deflate, inflate

DATA = b"tokens " * 100


@pytest.mark.parametrize("encoding", [GZIP, DEFLATE])
def test_deflate_round_trips(encoding: bytes) -> None:
    assert inflate(deflate(DATA, encoding), encoding, len(DATA), "body", "most") == DATA


def test_deflate_header_is_optional() -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert inflate(raw.compress(DATA) + raw.flush(), DEFLATE, len(DATA), "body", "most") == DATA


def test_oversized_data_is_refused() -> None:
    with pytest.raises(
        PayloadTooLarge,
        match=r"The message is larger than the 699 bytes allowed once decompressed \(setting most\)",
    ):
        inflate(deflate(DATA, GZIP), GZIP, len(DATA) - 1, "message", "most")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no gzip", "The body is not valid gzip: "),
        (deflate(DATA, GZIP)[:-9], "The body is truncated gzip."),
        (deflate(DATA, GZIP) + b"more", "4 bytes follow the gzip body."),
    ],
)
def test_truncated_data_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        inflate(data, GZIP, 10_000, "body", "most")
