"""Requests come out as they went in, wherever the network cuts them."""

from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.http1.heads import RequestRefused
from inferstream.server.http1.incoming import IncomingBytes

BODIES = st.lists(st.tuples(st.booleans(), st.binary(max_size=300), st.booleans()), min_size=1, max_size=4)


def sent(chunked: bool, body: bytes, trailers: bool) -> bytes:
    if not chunked:
        return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    half = len(body) // 2
    pieces = [piece for piece in (body[:half], body[half:]) if piece]
    chunks = b"".join(b"%X;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    end = b"X-Trailer: y\r\n" if trailers else b""
    return b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (chunks, end)


def read(pieces: list[bytes]) -> list[bytes]:
    """The bodies of all requests in these pieces."""
    incoming, bodies = IncomingBytes(), []
    for piece in pieces:
        if incoming.in_body and incoming.count_part(piece):
            bodies[-1] += piece
            continue
        incoming.unread += piece
        while incoming.unread:
            if incoming.in_body:
                found_pieces = incoming.take_body()
                bodies[-1] += b"".join(found_pieces)
                if incoming.in_body and not found_pieces:
                    break
            elif (found := incoming.take_head()) is not None:
                incoming.expect(found[0])
                incoming.keep(*found)
                bodies.append(b"")
            else:
                break
    assert not incoming.in_body
    assert not incoming.unread
    return bodies


@given(BODIES, st.data())
def test_chunk_boundaries_do_not_matter(
    requests: list[tuple[bool, bytes, bool]], data: st.DataObject
) -> None:
    whole = b"\r\n".join(sent(*request) for request in requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read([piece for piece in pieces if piece]) == [body for _, body, _ in requests]


@given(BODIES)
def test_single_byte_chunks_do_not_matter(requests: list[tuple[bool, bytes, bool]]) -> None:
    whole = b"".join(sent(*request) for request in requests)
    assert read([bytes([byte]) for byte in whole]) == [body for _, body, _ in requests]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_at_most_refused(data: bytes) -> None:
    for before in (b"", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            read([before + data])
        except (RequestRefused, AssertionError):
            pass


def test_repeated_head_is_parsed_once() -> None:
    incoming = IncomingBytes()
    request = sent(False, b"abc", False)
    incoming.unread += request
    found = incoming.take_head()
    assert found is not None
    incoming.keep(*found)
    incoming.expect(found[0])
    assert incoming.take_body() == [b"abc"]
    assert incoming.match_known(request.replace(b"abc", b"xyz")) == b"xyz"
    for other in (request + b"x", request[:-1], request.replace(b"POST", b"QUIT")):
        assert incoming.match_known(other) is None
    incoming.unread += request
    again = incoming.take_head()
    assert again is not None
    assert again[0] is found[0]
