"""Text models that think, call tools, look at images, echo their messages and options, and wait."""

import asyncio
import json
from collections.abc import AsyncIterator

from inferstream import App, Token
from inferstream.errors import Overloaded

app = App()

CALL = [
    {"index": 0, "id": "call_0", "function": {"name": "weather", "arguments": '{"city": '}},
    {"index": 0, "function": {"arguments": '"Oslo"}'}},
    {"index": 1, "id": "call_1", "function": {"name": "clock", "arguments": "{}"}},
]


@app.model(reasoning_format="think", tool_format="none")
async def agent(messages: str, tools: str = "[]", response_format: str = "") -> AsyncIterator[str | Token]:
    """Think, call two tools if there are tools, and use their results."""
    chat = json.loads(messages)
    yield "<think>The user says "
    yield f"{chat[-1]['content']}.</think>"
    if response_format:
        yield response_format
    elif chat[-1]["role"] == "tool":
        yield " and ".join(each["content"] for each in chat if each["role"] == "tool")
    elif tools != "[]":
        for piece in CALL:
            yield Token(tool_calls=[piece])
    else:
        yield "I have no **tools**."


@app.model
async def echo(messages: str) -> AsyncIterator[str]:
    """Repeat the messages as JSON."""
    yield messages


@app.model
async def slow(prompt: str) -> AsyncIterator[str]:
    """Count, ten numbers a second."""
    for number in range(10_000):
        yield f"{number} "
        await asyncio.sleep(0.1)


@app.model
async def sight(messages: str, images: list[bytes] | None = None) -> AsyncIterator[str]:
    """Describe the images of the last message."""
    yield json.dumps([len(image) for image in images or []])


@app.model
async def words(prompt: str, pause: float = 0.0) -> AsyncIterator[str]:
    for word in prompt.split():
        yield f"{word} "


@app.model
def add(a: int) -> int:
    return a


@app.model
async def broken(prompt: str) -> AsyncIterator[str]:
    """Fail after two words."""
    yield "so "
    yield "far"
    raise Overloaded("The tape went away.")
