"""Wrong messages over WebSockets."""

import asyncio
import json
import random

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from . import corpus, mutations
from .run import Run

MODELS = ["words", "add", "total", "echo"]


async def fuzz(port: int, seed: int, run: Run) -> None:
    """Open sockets and send messages until the run is over."""
    choose = random.Random(seed)
    while not run.over:
        url = f"ws://127.0.0.1:{port}/v2/models/{choose.choice(MODELS)}/stream"
        try:
            async with connect(url, proxy=None, max_size=None) as socket:
                for _ in range(choose.choice([1, 5, 20])):
                    await _say(socket, choose, run)
                if choose.random() < 0.1:
                    socket.transport.abort()
        except (WebSocketException, ConnectionError, TimeoutError) as error:
            code = getattr(getattr(error, "rcvd", None), "code", None)
            run.seen[f"websocket closed {code}"] += 1
            if code == 1011:
                run.fault(f"websocket closed with 1011: {error}", url)


async def _say(socket: object, choose: random.Random, run: Run) -> None:
    seed = choose.choice(corpus.socket_messages())
    of_corpus = corpus.mutated(seed if isinstance(seed, bytes) else seed.encode(), choose)
    text = of_corpus if choose.random() < 0.5 else mutations.text(choose)
    if choose.random() < 0.3:
        length = len(text) if choose.random() < 0.7 else choose.choice([0, 1, 2**31])
        message: bytes | str = length.to_bytes(4, "little") + text + mutations.raw_elements(choose)
    else:
        message = text.decode("utf-8", "replace")
    await socket.send(message)  # type: ignore[attr-defined]
    run.seen["websocket messages"] += 1
    try:
        answer = await asyncio.wait_for(socket.recv(), 0.2)  # type: ignore[attr-defined]
    except TimeoutError:
        return  # no answer is due to a part of a request
    if isinstance(answer, str):
        document = json.loads(answer)
        if document.get("code") == "internal":
            run.fault(f"websocket {document}", message)
