"""Questions to another process, told apart by a number."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Questions(dict[int, asyncio.Future[T]]):
    """The questions whose results are awaited, by number. A result that nobody awaits any more is dropped."""

    def ask(self, number: int) -> asyncio.Future[T]:
        """What to await for the result of this number, which no open question has."""
        question = self[number] = asyncio.get_running_loop().create_future()
        question.add_done_callback(lambda _: self.pop(number, None))
        return question

    def settle(self, number: int, result: T) -> None:
        """The result has come."""
        question = self.get(number)
        if question is not None and not question.done():
            question.set_result(result)

    def fail(self, number: int, error: BaseException) -> None:
        """An error has come in the place of the result."""
        question = self.get(number)
        if question is not None and not question.done():
            question.set_exception(error)

    def fail_all(self, error: BaseException) -> None:
        """No more results come."""
        for number in list(self):
            self.fail(number, error)
