"""Files of `shout://words`: one model in a line."""

from collections.abc import Iterator, Sequence

from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials

CONTENT = b'{"implementation": "shouting.Loud", "name": "remote"}'


class ShoutSource(RemoteSource):
    def files(self) -> Sequence[RemoteFile]:
        if not self.uri.endswith("://words"):
            raise FetchFailed(f"{hide_credentials(self.uri)} is not shout://words")
        return [RemoteFile("model-settings.json", len(CONTENT), identity="1")]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        yield CONTENT[offset:]
