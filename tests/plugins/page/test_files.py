"""The files of the page."""

from inferstream.plugins.page.files import StaticFile, page_document


def test_file_is_cached_with_own_validator_per_encoding() -> None:
    file = StaticFile(b"body" * 100, [])
    status, headers, body = file.response([], None)
    plain = dict(headers)[b"etag"]
    assert (status, body) == (200, b"body" * 100)
    _, headers, body = file.response([], b"gzip")
    packed = dict(headers)
    assert packed[b"content-encoding"] == b"gzip"
    assert packed[b"etag"] != plain
    assert len(body) < 100
    known = [(b"if-none-match", b'"a", ' + packed[b"etag"])]
    status, headers, body = file.response(known, b"gzip")
    assert (status, body) == (304, b"")
    assert b"content-encoding" not in dict(headers)
    assert file.response(known, None)[0] == 200
    assert file.response(known, b"deflate")[2] == b"body" * 100
    assert page_document("./") is page_document("./")
