"""Questions to another process, identified by a number."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Questions(dict[int, asyncio.Future[T]]):
    """Futures of open questions by number. A result without a waiter is dropped."""

    def ask(self, number: int) -> asyncio.Future[T]:
        """A future for the result of this number. No open question may have the same number."""
        question = self[number] = asyncio.get_running_loop().create_future()
        question.add_done_callback(lambda _: self.pop(number, None))
        return question

    def settle(self, number: int, result: T) -> None:
        question = self.get(number)
        if question is not None and not question.done():
            question.set_result(result)

    def fail(self, number: int, error: BaseException) -> None:
        question = self.get(number)
        if question is not None and not question.done():
            question.set_exception(error)

    def fail_all(self, error: BaseException) -> None:
        for number in list(self):
            self.fail(number, error)
