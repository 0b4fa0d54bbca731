"""Cancels calls by the id of their request, in every front end."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

import orjson

from ..errors import Cancelled, NotFound
from .call import Call
from .peers import Peers
from .stages.live import Live

SUBJECT = "cancel"

CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key", "cookie")
"""Headers that tell clients apart. Who ends or resumes a call sends the same ones as the request of the call."""


def credentials_of(headers: Mapping[str, str]) -> str:
    """A digest of the credentials among these headers, equal for equal ones."""
    digest = blake2b(digest_size=16)
    for name in CREDENTIALS:
        value = headers.get(name)
        digest.update(b"-" if value is None else b"%d:%b" % (len(value), value.encode(errors="replace")))
    return digest.hexdigest()


class Cancelling:
    """Finds the calls of an id among all calls in progress, so that a call costs nothing for it."""

    def __init__(self, lives: Callable[[], Iterable[Live]], peers: Peers) -> None:
        self._lives = lives
        self._peers = peers
        peers.answers(SUBJECT, self._asked)

    async def cancel(self, id: str, headers: Mapping[str, str]) -> int:
        """Cancel all calls with this id and these credentials; how many there were. Raises NotFound."""
        credentials = credentials_of(headers)
        question = orjson.dumps([id, credentials]).decode()
        cancelled = self._here(id, credentials)
        cancelled += sum(map(int, await self._peers.ask_others(SUBJECT, question)))
        if not cancelled:
            raise NotFound(f'no request with the id "{id}" is in progress')
        return cancelled

    async def _asked(self, question: str) -> bytes:
        id, credentials = orjson.loads(question)
        return b"%d" % self._here(id, credentials)

    def _here(self, id: str, credentials: str) -> int:
        found = [
            call
            for live in self._lives()
            for call in live.calls
            if isinstance(call, Call)
            and call.request.id == id
            and credentials_of(call.headers) == credentials
        ]
        for call in found:
            call.end(Cancelled())
        return len(found)
