"""Waiting to be woken."""

import asyncio


class Wakeup:
    """Lets one task wait until it is woken. A wake-up that comes while nobody waits is lost.

    So a waiter checks its condition before each wait: `while not ready: await wakeup.wait()`.
    """

    # With the class: setting it up for each object would be a part of a small request.
    _waiting: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """What to await; it ends with the next wake-up."""
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        return waiting

    def wake(self) -> None:
        """End the wait, if there is one."""
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
