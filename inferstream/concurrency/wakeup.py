"""A wait that another task ends."""

import asyncio


class Wakeup:
    """Lets one task wait until another wakes it. A wake-up without a waiter is lost.

    So a waiter checks its condition before each wait: `while not ready: await wakeup.wait()`.
    """

    # A class attribute, because setting it for each object would cost part of a small request.
    _waiting: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """A future that the next wake-up ends."""
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        return waiting

    def wake(self) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
