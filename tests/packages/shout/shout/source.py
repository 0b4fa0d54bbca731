"""Files of `shout://words`: one model in a line."""

from collections.abc import Iterator, Sequence

from inferstream.repository.remote import RemoteFile, RemoteSource

CONTENT = b'{"implementation": "shouting.Loud", "name": "remote"}'


class ShoutSource(RemoteSource):
    def files(self) -> Sequence[RemoteFile]:
        return [RemoteFile("model-settings.json", len(CONTENT), identity="1")]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        yield CONTENT[offset:]
