"""What a large body of each shape costs the server: CPU, memory, and how long everybody else waits.

Each body goes to a fresh server on a core of its own, while the liveness route is asked all the time. Most bodies are
wrong, because the question is what one request can do.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import grpc
import httpx
from rich.console import Console
from rich.table import Table

from inferstream.protos.dataplane_pb2 import ModelInferRequest

from .servers import Target, cpu_seconds, forget_peak, memory, start_ours, stop

MIB = 2**20
INFER = "/v2/models/total/infer"
MODEL = """
from inferstream import MLModel
from inferstream.types import InferenceResponse, MetadataTensor


class Total(MLModel):
    inputs = [MetadataTensor(name="x", datatype="INT64", shape=[-1])]

    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[])
"""
FUNCTIONS = """
from typing import Any

from inferstream import App

app = App()


@app.model
def typed(d: list[dict[str, int]]) -> int:
    return len(d)


@app.model
async def anything(d: Any) -> int:
    return len(d)


@app.model
async def lines(x: list[str]) -> int:
    return len(x)


@app.model
async def chat(prompt: str, response_format: str = "") -> str:
    return prompt


@app.model
async def tools(messages: str) -> str:
    return messages[:10]
"""
TENSOR = b'{"inputs":[{"name":"x","datatype":"INT64","shape":[%d],"data":[%b]}]}'


class Figures(NamedTuple):
    status: int
    cpu: float
    """Milliseconds of the server."""
    wait: float
    """Milliseconds of the longest wait for the liveness route."""
    memory: float
    """Bytes of memory for each byte of the body."""


def bodies(size: int) -> dict[str, bytes]:
    """Bodies of about `size` bytes."""

    def many(unit: bytes) -> bytes:
        return b",".join([unit] * (size // (len(unit) + 1)))

    keys = b",".join(b'"k%d":1' % number for number in range(size // 12))
    return {
        "small integers": TENSOR % (size // 2, many(b"1")),
        "integers": TENSOR % (size // 3, many(b"-9")),
        "fractions for integers": TENSOR % (1, many(b"-9.5")),
        "rows of one number": TENSOR % (1, many(b"[12345678]")),
        "one text": b'{"inputs":[],"id":"%b"}' % (b'a:\\"' * (size // 4)),
        "texts": TENSOR % (1, many(b'"abcdefghijkl"')),
        "keys": b'{"inputs":[],"parameters":{%b}}' % keys,
        "inputs": b'{"inputs":[%b]}' % many(b'{"name":"x","shape":[1],"datatype":"INT64","data":[1]}'),
        "empty lists": b'{"inputs":[%b]}' % many(b"[]"),
        "depth": b'{"inputs":' + b"[" * size,
        "noise": os.urandom(size),
    }


class Sent(NamedTuple):
    """A request to the functions."""

    path: str
    """Of REST; empty for a gRPC message."""
    body: bytes
    head: int | None = None
    """Bytes of the JSON, if binary tensors follow it."""
    is_total: bool = False
    """Whether it is for the class, and not for a function."""


def texts(size: int) -> dict[str, Sent]:
    """JSON texts within requests, and many elements of BYTES, of about `size` bytes."""

    def inputs(model: str, text: bytes) -> Sent:
        tensor = {"name": "d", "datatype": "BYTES", "shape": [1], "data": [text.decode()]}
        return Sent(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}).encode())

    def message(model: str, name: str, *elements: bytes, raw: bytes = b"") -> Sent:
        asked = ModelInferRequest(model_name=model)
        tensor = asked.inputs.add(name=name, datatype="BYTES", shape=[len(elements) or len(raw) // 4])
        if raw:
            asked.raw_input_contents.append(raw)
        else:
            tensor.contents.bytes_contents.extend(elements)
        return Sent("", asked.SerializeToString())

    def numbers(datatype: str, field: str, values: list[Any]) -> Sent:
        asked = ModelInferRequest(model_name="total")
        tensor = asked.inputs.add(name="x", datatype=datatype, shape=[len(values)])
        getattr(tensor.contents, field).extend(values)
        return Sent("", asked.SerializeToString(), is_total=True)

    lists = b"[%b]" % b",".join([b"[]"] * (size // 3))
    half = b"[%b]" % b",".join([b"[]"] * min(size // 3, 990_000))
    rows = b"[%b]" % b",".join([b'{"a":1}'] * min(size // 8, 110_000))
    schema = b'{"a":%b}' % lists
    count = size // 4
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "BYTES",
                    "shape": [count],
                    "parameters": {"binary_data_size": 4 * count},
                }
            ]
        }
    ).encode()
    user = {"role": "user", "content": "a"}
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": lists.decode()}}
    chat = {"model": "chat", "messages": [user], "guided_json": schema.decode()}
    earlier = {"model": "tools", "messages": [user, {"role": "assistant", "tool_calls": [call]}]}
    rpc = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}'
    tool = b'{"name":"typed","arguments":{"d":%b}}' % half
    return {
        "JSON in a BYTES element": inputs("typed", lists),
        "wrong JSON in a BYTES element": inputs("typed", half),
        "right JSON in a BYTES element": inputs("typed", rows),
        "wrong flat JSON": Sent("/v2/models/typed/generate", b'{"d":%b}' % half),
        "wrong JSON-RPC": Sent("/rpc", rpc % (b"typed", b'{"d":%b}' % half)),
        "wrong arguments of an MCP tool": Sent("/mcp", rpc % (b"tools/call", tool)),
        "numbers of a flat list": Sent(
            "/v2/models/anything/generate", b'{"d":[%b1]}' % (b"1," * (size // 2))
        ),
        "guided_json": Sent("/v1/chat/completions", json.dumps(chat).encode()),
        "arguments of a tool": Sent("/v1/chat/completions", json.dumps(earlier).encode()),
        "empty BYTES, binary": Sent("/v2/models/lines/infer", head + b"\0" * 4 * count, len(head)),
        "empty BYTES, gRPC raw": message("lines", "x", raw=b"\0" * 4 * count),
        "empty BYTES, gRPC contents": message("lines", "x", *[b""] * (size // 2)),
        "JSON in gRPC": message("anything", "d", lists),
        "booleans in gRPC": numbers("BOOL", "bool_contents", [True] * size),
        "integers in gRPC": numbers("INT64", "int64_contents", [200] * (size // 2)),
        "fractions in gRPC": numbers("FP32", "fp32_contents", [0.5] * (size // 4)),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--megabytes", type=float, nargs="*", default=[4.0, 32.0])
    options.add_argument("--only", default="", help="measure rows whose names hold this text")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.sched_setaffinity(0, {cpus[-1]})
        for size in given.megabytes:
            table = Table("body", "status", "CPU", "CPU a MB", "longest wait", "memory", title=f"{size:g} MB")
            plain = {name: Sent(INFER, body) for name, body in bodies(int(size * MIB)).items()}
            for name, sent in {**plain, **texts(int(size * MIB))}.items():
                if given.only not in name:
                    continue
                rounds = []
                served = (
                    Path(folder) if sent.path == INFER or sent.is_total else Path(folder) / "functions.py"
                )
                for _ in range(given.rounds):
                    with server(served, cpus[0]) as target:
                        rounds.append(asyncio.run(measure(target, sent)))
                body = sent.body
                cpu, wait, needed = (median(each[index] for each in rounds) for index in (1, 2, 3))
                table.add_row(
                    name,
                    str(rounds[0].status),
                    f"{cpu:.0f} ms",
                    f"{cpu / (len(body) / MIB):.1f} ms",
                    f"{wait:.0f} ms",
                    f"{needed:.1f} x",
                )
            Console().print(table)


def write(folder: Path) -> None:
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "total").mkdir()
    (folder / "total" / "model.py").write_text(MODEL)
    (folder / "total" / "model-settings.json").write_text(
        '{"name": "total", "implementation": "model.Total"}'
    )


@contextmanager
def server(folder: Path, cpu: int) -> Iterator[Target]:
    target = start_ours({cpu}, "inferstream", models=folder)
    try:
        yield target
    finally:
        stop([target])


async def send(target: Target, client: httpx.AsyncClient, sent: Sent) -> int:
    """The status of a request: that of HTTP, or the number of that of gRPC."""
    if not sent.path:
        address = f"127.0.0.1:{target.ports['grpc']}"
        async with grpc.aio.insecure_channel(address, [("grpc.max_send_message_length", -1)]) as channel:
            try:
                await channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(sent.body)
            except grpc.aio.AioRpcError as error:
                return int(error.code().value[0])
        return 0
    headers = {} if sent.head is None else {"Inference-Header-Content-Length": str(sent.head)}
    url = f"http://127.0.0.1:{target.ports['rest']}{sent.path}"
    return (await client.post(url, content=sent.body, headers=headers)).status_code


async def measure(target: Target, sent: Sent) -> Figures:
    url = f"http://127.0.0.1:{target.ports['rest']}"
    async with httpx.AsyncClient(timeout=300) as client, httpx.AsyncClient() as other:
        await client.post(f"{url}{INFER}", content=TENSOR % (1, b"1"))
        await other.get(f"{url}/v2/health/live")
        waits: list[float] = []
        probing = asyncio.create_task(probe(other, f"{url}/v2/health/live", waits))
        forget_peak(target.process.pid)
        before, cpu = memory(target.process.pid), cpu_seconds(target.process.pid)
        status = await send(target, client, sent)
        probing.cancel()
        spent = cpu_seconds(target.process.pid) - cpu
        grown = memory(target.process.pid, "VmHWM") - before
    return Figures(status, spent * 1000, max(waits, default=0) * 1000, grown / len(sent.body))


async def probe(client: httpx.AsyncClient, url: str, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await client.get(url)
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    main()
