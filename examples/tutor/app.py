"""A tutor: asks, listens and adapts. The answers of the learner come in while the lesson runs.

Both directions are open at once: over a WebSocket or gRPC the client opens a lesson, and sends each answer as a later
request of the same call. The lesson waits for it, and makes the next question of it.
"""

from collections.abc import AsyncIterator
from random import Random

from inferstream import App

app = App()


@app.model
async def lesson(
    answers: AsyncIterator[int], questions: int = 5, seed: int | None = None
) -> AsyncIterator[str]:
    """Sums that grow with each right answer, and shrink with each wrong one.

    Args:
        answers: What the learner answers, one after another.
        questions: How many there are.
        seed: Another one gives other questions.
    """
    random = Random(seed)
    level, right = 1, 0
    for number in range(1, questions + 1):
        one, other = (random.randint(10 ** (level - 1), 10**level - 1) for _ in range(2))
        yield f"{number}. How much is {one} + {other}?"
        answer = await anext(answers, None)
        if answer is None:
            break
        if answer == one + other:
            level, right = level + 1, right + 1
            yield "Right."
        else:
            level = max(1, level - 1)
            yield f"No, it is {one + other}."
    yield f"{right} right."
