"""The examples of RFC 7541, appendix C."""

import pytest

from inferstream.server.http2.hpack import Decoder
from inferstream.server.http2.hpack.integers import encode_integer, read_continuation

RESIZE_TO_256 = "3fe101"  # the responses of the appendix are for a table of this size


@pytest.mark.parametrize(
    ("value", "bits", "expected"), [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a"), (31, 5, "1f00")]
)
def test_rfc_integers(value: int, bits: int, expected: str) -> None:
    written = encode_integer(value, bits, 0)
    assert written == bytes.fromhex(expected)
    if len(written) > 1:
        assert read_continuation(written, 1, (1 << bits) - 1) == (value, len(written))


@pytest.mark.parametrize(
    ("block", "header"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", (b"custom-key", b"custom-header")),
        ("040c2f73616d706c652f70617468", (b":path", b"/sample/path")),
        ("100870617373776f726406736563726574", (b"password", b"secret")),
        ("82", (b":method", b"GET")),
    ],
)
def test_rfc_header_representations(block: str, header: tuple[bytes, bytes]) -> None:
    assert Decoder().decode(bytes.fromhex(block)) == (header,)


REQUESTS = [
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
]
COOKIE = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
RESPONSES = [
    [
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    [
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    [
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", COOKIE),
    ],
]
CONVERSATIONS = {
    "C.3 requests": (
        REQUESTS,
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
    ),
    "C.4 requests in the Huffman code": (
        REQUESTS,
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ),
    "C.5 responses": (
        RESPONSES,
        [
            RESIZE_TO_256
            + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e"
            "1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48"
            "514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
        ],
    ),
    "C.6 responses in the Huffman code": (
        RESPONSES,
        [
            RESIZE_TO_256
            + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b"
            "97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af"
            "27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_rfc_conversations(name: str) -> None:
    lists, blocks = CONVERSATIONS[name]
    decoder = Decoder()
    for headers, block in zip(lists, blocks, strict=True):
        expected = tuple((key.encode(), value.encode()) for key, value in headers)
        assert decoder.decode(bytes.fromhex(block)) == expected
