"""Cancellation of calls by request id, across all front ends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from ..errors import Cancelled, NotFound
from ..types import Headers
from .call import Call
from .caller import Caller
from .peers import CancelCalls, Peers
from .stages.live import Live


class Credentials:
    """Distinguishes clients by configured headers and by the names in a verified client certificate.

    A call can be cancelled or resumed only with the same credentials. If keys identify principals, the
    principal is used instead.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.lower() for name in names]

    def of(self, headers: Mapping[str, str], principal: str | None) -> str:
        """Compute a digest of a client's credentials. Equal credentials have equal digests."""
        if principal is not None:
            return blake2b(_prefix_length(principal), digest_size=16, person=b"principal").hexdigest()
        digest = blake2b(digest_size=16)
        for name in self._names:
            value = headers.get(name)
            digest.update(b"-" if value is None else _prefix_length(value))
        for identity in sorted(headers.identities) if isinstance(headers, Headers) else ():
            digest.update(_prefix_length(identity))
        return digest.hexdigest()


def _prefix_length(text: str) -> bytes:
    value = text.encode(errors="replace")
    return b"%d:%b" % (len(value), value)


class Cancelling:
    """Cancels calls by request id. It searches all calls in progress, so there is no overhead per call."""

    def __init__(self, lives: Callable[[], Iterable[Live]], peers: Peers, credentials: Credentials) -> None:
        self._lives = lives
        self._credentials = credentials
        self._peers = peers
        peers.answers(CancelCalls, self._here)

    async def cancel(self, id: str, caller: Caller) -> int:
        """Cancel the calls with this id and the caller's credentials, and return their number.

        Raises NotFound if there are none.
        """
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
