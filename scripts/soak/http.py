"""Clients over HTTP: REST, server-sent events, OpenAI's and Anthropic's APIs, WebSockets, and raw connections."""

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from .site import DEADLINES, Ask, Site, draw, send_a_part

TOGETHER = 8
"""Calls that a client has in flight."""

FAILED = re.compile(r'^(?:event: error\n)?data: (\{(?:"type":"error",)?"error":.*)$', re.M)


def v2(ask: Ask) -> dict[str, Any]:
    prompt = {"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    return {"inputs": [prompt], "parameters": ask.parameters}


def chat(ask: Ask) -> dict[str, Any]:
    messages = [{"role": "user", "content": "a"}]
    return {"model": ask.model, "messages": messages, "max_tokens": 10**6, **ask.parameters}


def streamed(ask: Ask) -> dict[str, Any]:
    return {**chat(ask), "stream": True}


@dataclass(frozen=True)
class Door:
    """A route: its path, its body, and the line that ends each whole answer."""

    path: str
    body: Callable[[Ask], dict[str, Any]]
    last: str = ""

    def end(self, ask: Ask, status: int, text: str) -> str:
        if status != 200:
            return str(status)
        if failed := FAILED.search(text):
            error = json.loads(failed[1])
            inner = error["error"] if isinstance(error["error"], dict) else error
            return str(inner.get("code") or inner["type"])
        return ask.end(text) if self.last in text else "cut off"


DOORS = {
    "rest": Door("/v2/models/{}/infer", v2),
    "sse": Door("/v2/models/{}/infer_stream", v2),
    "openai": Door("/v1/chat/completions", chat),
    "openai stream": Door("/v1/chat/completions", streamed, "\ndata: [DONE]"),
    "anthropic": Door("/v1/messages", chat),
    "anthropic stream": Door("/v1/messages", streamed, "\nevent: message_stop"),
}


async def visit(name: str, site: Site, choose: random.Random) -> None:
    """Calls over connections that are then closed."""
    async with aiohttp.ClientSession(site.url) as session:
        for _ in range(5):
            async with asyncio.TaskGroup() as group:
                for _ in range(TOGETHER):
                    group.create_task(call(name, site, session, draw(choose), choose.random()))


async def call(name: str, site: Site, session: aiohttp.ClientSession, ask: Ask, luck: float) -> None:
    door = DOORS[name]
    headers = {"X-Request-Timeout": f"{luck * 0.03 + 1e-6:.6f}"} if ask.way == "deadline" else {}
    text = ""
    try:
        async with asyncio.timeout(luck * 0.05 if ask.way == "leaves" else None):
            async with session.post(
                door.path.format(ask.model), json=door.body(ask), headers=headers
            ) as answer:
                text = await answer.text()
        end = door.end(ask, answer.status, text)
    except TimeoutError:
        end = "left"
    site.note(name, ask.model, end, *{"deadline": DEADLINES, "leaves": ("left",)}.get(ask.way, ()), said=text)


async def tensors(site: Site, choose: random.Random) -> None:
    """Tensors that come back as they were: ones that are copied, and ones that travel in shared memory."""
    async with aiohttp.ClientSession(site.url) as session:
        for size in (4, 20_000):
            ask = draw(choose)
            data = [choose.randrange(100) / 4] * size
            tensor = {"name": "x", "datatype": "FP32", "shape": [size], "data": data}
            async with session.post(f"/v2/models/{ask.model}/infer", json={"inputs": [tensor]}) as answer:
                text = await answer.text()
            end = str(answer.status)
            if end == "200":
                end = "ok" if json.loads(text)["outputs"][0]["data"] == data else "wrong"
            site.note("tensors", ask.model, end, said=text)


async def sockets(site: Site, choose: random.Random) -> None:
    """Requests side by side over a WebSocket, some of them cancelled, some left alone."""
    model = draw(choose).model
    asks = {str(number): draw(choose) for number in range(TOGETHER)}
    texts = dict.fromkeys(asks, "")
    waiting = {name for name, ask in asks.items() if ask.way != "leaves"}
    async with aiohttp.ClientSession(site.url) as session:
        try:
            socket = await session.ws_connect(f"/v2/models/{model}/stream")
        except aiohttp.WSServerHandshakeError as error:  # which does not have the body
            site.note("sockets", model, f"{error.status}", said="not ready")
            return
        for name, ask in asks.items():
            await socket.send_json({"id": name, **v2(ask)})
            if ask.way == "deadline":
                await socket.send_json({"id": name, "cancel": True})
        while waiting:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                site.note("sockets", model, "closed", said=repr(message))
                return
            answer = json.loads(message.data)
            name = answer["id"]
            texts[name] += message.data
            if "error" in answer or answer["parameters"]["triton_final_response"]:
                waiting.discard(name)
                end = answer.get("code") or asks[name].end(texts[name])
                explained = ("cancelled",) if asks[name].way == "deadline" else ()
                site.note("sockets", model, end, *explained, said=message.data)


async def hang_ups(site: Site, choose: random.Random) -> None:
    """Connections that end in the middle of anything."""
    body = json.dumps(v2(Ask("near", "leaves", 10**5, 10, 0.001)))
    head = f"POST /v2/models/near/infer_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    octets = (head + body).encode() * 2
    await send_a_part(site.http_port, octets, choose)
    site.note("hang_ups", "near", "left", "left")


CLIENTS = (tensors, sockets, hang_ups)
