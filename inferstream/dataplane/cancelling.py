"""Cancels calls by the id of their request, in every front end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from ..errors import Cancelled, NotFound
from ..types import Headers
from .call import Call
from .caller import Caller
from .peers import CancelCalls, Peers
from .stages.live import Live


class Credentials:
    """What tells clients apart: headers of the given names, and the names in a verified certificate.

    Who ends or resumes a call has the same ones as the request of the call. Where keys name principals, these count.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.lower() for name in names]

    def of(self, headers: Mapping[str, str], principal: str | None) -> str:
        """A digest of the credentials of a client, equal for equal ones."""
        if principal is not None:
            return blake2b(_counted(principal), digest_size=16, person=b"principal").hexdigest()
        digest = blake2b(digest_size=16)
        for name in self._names:
            value = headers.get(name)
            digest.update(b"-" if value is None else _counted(value))
        for identity in sorted(headers.identities) if isinstance(headers, Headers) else ():
            digest.update(_counted(identity))
        return digest.hexdigest()


def _counted(text: str) -> bytes:
    value = text.encode(errors="replace")
    return b"%d:%b" % (len(value), value)


class Cancelling:
    """Finds the calls of an id among all calls in progress, so that a call costs nothing for it."""

    def __init__(self, lives: Callable[[], Iterable[Live]], peers: Peers, credentials: Credentials) -> None:
        self._lives = lives
        self._credentials = credentials
        self._peers = peers
        peers.answers(CancelCalls, self._here)

    async def cancel(self, id: str, caller: Caller) -> int:
        """Cancel all calls with this id and these credentials; how many there were. Raises NotFound."""
        question = CancelCalls(id, self._credentials.of(caller.headers, caller.principal))
        cancelled = await self._here(question)
        cancelled += sum(await self._peers.ask_others(question))
        if not cancelled:
            raise NotFound(f'no request with the id "{id}" is in progress')
        return cancelled

    async def _here(self, question: CancelCalls) -> int:
        calls = [
            call
            for live in self._lives()
            for call in live.calls
            if isinstance(call, Call)
            and call.request.id == question.id
            and self._credentials.of(call.headers, call.principal) == question.credentials
        ]
        for call in calls:
            call.end(Cancelled())
        return len(calls)
