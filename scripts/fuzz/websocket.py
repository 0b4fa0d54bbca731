"""Wrong messages over WebSockets."""

import asyncio
import json
import random
from collections import Counter

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from . import mutations

MODELS = ["words", "add", "total", "echo"]


async def fuzz(port: int, seed: int, until: float, seen: Counter[str], faults: list[str]) -> None:
    """Open sockets and send messages until the loop's clock says `until`."""
    choose = random.Random(seed)
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        url = f"ws://127.0.0.1:{port}/v2/models/{choose.choice(MODELS)}/stream"
        try:
            async with connect(url, proxy=None, max_size=None) as socket:
                for _ in range(choose.choice([1, 5, 20])):
                    await _say(socket, choose, seen, faults)
                if choose.random() < 0.1:
                    socket.transport.abort()
        except (WebSocketException, ConnectionError, TimeoutError) as error:
            code = getattr(getattr(error, "rcvd", None), "code", None)
            seen[f"websocket closed {code}"] += 1
            if code == 1011:
                faults.append(f"websocket closed with 1011: {error}")


async def _say(socket: object, choose: random.Random, seen: Counter[str], faults: list[str]) -> None:
    text = mutations.text(choose)
    if choose.random() < 0.3:
        length = len(text) if choose.random() < 0.7 else choose.choice([0, 1, 2**31])
        message: bytes | str = length.to_bytes(4, "little") + text + mutations.raw_elements(choose)
    else:
        message = text.decode("utf-8", "replace")
    await socket.send(message)  # type: ignore[attr-defined]
    seen["websocket messages"] += 1
    try:
        answer = await asyncio.wait_for(socket.recv(), 0.2)  # type: ignore[attr-defined]
    except TimeoutError:
        return  # no answer is due to a part of a request
    if isinstance(answer, str):
        document = json.loads(answer)
        if document.get("code") == "internal":
            faults.append(f"websocket {document} to {message[:2000]!r}")
