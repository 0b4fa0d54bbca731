"""How many texts the server has shouted, in all of its front ends."""

from inferstream.ext.calls import PeerQuestion, ServerParts


class CountShouts(PeerQuestion[int]):
    """How many texts has this front end shouted?"""


class Shouts:
    def __init__(self, parts: ServerParts) -> None:
        self.count = 0
        self._peers = parts.peers
        self._peers.answers(CountShouts, self._answer)

    async def total(self) -> int:
        return self.count + sum(await self._peers.ask_others(CountShouts()))

    async def _answer(self, question: CountShouts) -> int:
        return self.count
