"""Files over HTTPS, whose server is a function."""

import gzip
from collections.abc import Callable

import httpx
import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.sources.http import HttpsFile
from tests.plugins.sources.conftest import Answer, streamed

URI = "https://host/model.tar.gz"


def test_file_is_stored_unchanged(answer: Callable[[Answer], None]) -> None:
    """Servers that call an archive's compression a coding of its transfer."""
    content = gzip.compress(b"archive")
    headers = {"content-encoding": "gzip", "content-length": str(len(content))}
    answer(lambda _: streamed(content, **headers))
    with HttpsFile(URI) as source:
        [file] = source.files()
        assert file.size == len(content)
        assert b"".join(source.read(file, 0)) == content
        assert b"".join(source.read(file, 4)) == content[4:]


def test_redirect_without_tls_is_not_followed(answer: Callable[[Answer], None]) -> None:
    asked: list[str] = []

    def moved(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return (
            streamed(b"1")
            if len(asked) == 1
            else httpx.Response(302, headers={"location": "http://other/model.tar.gz"})
        )

    answer(moved)
    with HttpsFile("https://user:s3cr3t@host/model.tar.gz") as source:
        [file] = source.files()
        with pytest.raises(InvalidSettings, match=r"^https://host/model.tar.gz leads to a URL without TLS$"):
            [*source.read(file, 0)]
        with pytest.raises(InvalidSettings, match="without TLS"):
            source.files()
    assert not [url for url in asked if url.startswith("http:")]


@pytest.mark.parametrize(
    ("etag", "pin", "resumes"),
    [('"1"', "", True), ('W/"1"', "", False), (None, "", False), (None, f"#sha256={'0' * 64}", True)],
)
def test_transfer_resumes_only_with_known_content(
    answer: Callable[[Answer], None], etag: str | None, pin: str, resumes: bool
) -> None:
    conditions: list[str | None] = []

    def served(request: httpx.Request) -> httpx.Response:
        conditions.append(request.headers.get("if-match"))
        return streamed(b"1", **({"etag": etag} if etag else {}))

    answer(served)
    with HttpsFile(URI + pin) as source:
        [file] = source.files()
        assert file.resumes is resumes
        assert [*source.read(file, 0)] == [b"1"]
    assert conditions == [None, '"1"' if etag == '"1"' else None]
