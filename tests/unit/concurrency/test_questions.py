"""Questions to another process."""

import asyncio

import pytest

from inferstream.concurrency.questions import Questions


async def test_each_question_gets_the_result_of_its_number() -> None:
    questions: Questions[str] = Questions()
    first, second = questions.ask(1), questions.ask(2)
    questions.settle(2, "two")
    questions.fail(1, KeyError("one"))
    assert await second == "two"
    with pytest.raises(KeyError, match="one"):
        await first
    await asyncio.sleep(0)
    assert not questions


async def test_a_result_that_comes_twice_or_that_nobody_awaits_is_dropped() -> None:
    questions: Questions[int] = Questions()
    answered, left = questions.ask(1), questions.ask(2)
    questions.settle(1, 1)
    questions.settle(1, 2)
    questions.fail(1, ValueError())
    left.cancel()
    questions.settle(2, 2)
    questions.settle(3, 3)
    assert await answered == 1
    await asyncio.sleep(0)
    assert not questions


async def test_when_no_more_results_come_every_question_fails() -> None:
    questions: Questions[int] = Questions()
    known, *lost = [questions.ask(number) for number in range(3)]
    questions.settle(0, 0)
    questions.fail_all(EOFError())
    assert await known == 0
    for question in lost:
        with pytest.raises(EOFError):
            await question
    await asyncio.sleep(0)
    assert not questions
