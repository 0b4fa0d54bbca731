"""Clients of the gRPC port that call, cancel, let deadlines pass, leave, read slowly and err, with grpcio's library."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress

import grpc
import grpc.aio

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse

from .site import MODELS, Ask, Site

SERVICE = "/inference.GRPCInferenceService/"

LARGEST = 4 * 2**20
"""Bytes of a message that the server takes."""

LIBRARY = "Internal error from Core"
"""What grpc.aio says of its own where a call ends while it writes to it."""


def request(ask: Ask) -> ModelInferRequest:
    made = ModelInferRequest(model_name=ask.model)
    made.inputs.add(name="prompt", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    made.parameters["items"].int64_param = ask.items
    made.parameters["size"].int64_param = ask.size
    made.parameters["seconds"].double_param = ask.seconds
    return made


def asking(model: str, items: int = 1, size: int = 10, seconds: float = 0) -> bytes:
    return request(Ask(model, "", items, size, seconds)).SerializeToString()


class Channel:
    """A connection of its own, to one model, and the ends of the calls over it."""

    def __init__(self, site: Site, choose: random.Random, client: str) -> None:
        self.site, self.client, self.model = site, client, choose.choice([*MODELS])
        # Otherwise channels to one address share a connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.own = grpc.aio.insecure_channel(f"127.0.0.1:{site.grpc_port}", options)
        self.infer = self.own.unary_unary(f"{SERVICE}ModelInfer")
        self.stream = self.own.stream_stream(f"{SERVICE}ModelStreamInfer")

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.own.close()

    def note(self, end: str, said: str, *explained: str) -> None:
        self.site.note(f"grpc {self.client}", self.model, end, *explained, said=said)

    async def end(self, call: Awaitable[bytes], ask: Ask | None, *explained: str) -> None:
        """Wait for the end of a unary call, and note it."""
        try:
            answer = await call
        except asyncio.CancelledError:
            self.note("CANCELLED", "", *explained)
        except grpc.aio.AioRpcError as error:
            self.note(error.code().name, error.details() or "", *explained)
        else:
            self.note(ask.end(answer.decode("latin-1")) if ask else "ok", "", *explained)

    async def stopped(self, call: grpc.aio.Call, *explained: str) -> None:
        """Note the end of a stream that was not read to its end."""
        end, said = (await call.code()).name, await call.details() or ""
        self.note(LIBRARY if said == LIBRARY else end, said, LIBRARY, *explained)


async def calls(site: Site, choose: random.Random) -> None:
    """Calls and streams of all sizes that end well."""
    async with Channel(site, choose, "calls") as channel:
        for _ in range(10):
            sizes = [choose.choice((1, 100, 100_000)) for _ in range(8)]
            asks = [Ask(channel.model, "", choose.choice((1, 3)), size, 0) for size in sizes]
            waiting = [channel.end(channel.infer(request(ask).SerializeToString()), ask) for ask in asks]
            await asyncio.gather(*waiting, whole_stream(channel, choose))


async def whole_stream(channel: Channel, choose: random.Random) -> None:
    """A stream of one request or two, read to its end."""
    ask = Ask(channel.model, "", choose.choice((0, 5, 50)), 10, 0)
    again = choose.random() < 0.5
    call = channel.stream()
    text = ""
    try:
        for _ in range(1 + again):
            await call.write(request(ask).SerializeToString())
        await call.done_writing()
        async for message in call:
            text += message.decode("latin-1")
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await channel.stopped(call)
    else:
        half = len(text) // (1 + again)
        ends = {ask.end(text[:half]), ask.end(text[half * again :])}
        channel.note("ok" if ends == {"ok"} else "wrong", text)


async def tensors(site: Site, choose: random.Random) -> None:
    """Raw tensors that come back as they were: ones that are copied, and ones that travel in shared memory."""
    async with Channel(site, choose, "tensors") as channel:
        for size in (4, 600_000):
            values = choose.randbytes(size)
            asked = ModelInferRequest(model_name=channel.model, raw_input_contents=[values])
            asked.inputs.add(name="x", datatype="FP32", shape=[size // 4])
            try:
                answer = ModelInferResponse.FromString(await channel.infer(asked.SerializeToString()))
            except grpc.aio.AioRpcError as error:
                channel.note(error.code().name, error.details() or "")
            else:
                channel.note("ok" if values in answer.raw_output_contents else "wrong", "")


async def cancels(site: Site, choose: random.Random) -> None:
    """Unary calls that the client cancels before, while and after they are served."""
    async with Channel(site, choose, "cancels") as channel:
        for _ in range(20):
            call = channel.infer(asking(channel.model, seconds=choose.choice((0.0, 0.01, 30.0))))
            await asyncio.sleep(choose.random() * 0.02)
            call.cancel()
            await channel.end(call, None, "CANCELLED")


async def deadlines(site: Site, choose: random.Random) -> None:
    async with Channel(site, choose, "deadlines") as channel:
        for _ in range(10):
            timeout = choose.random() * 0.03
            call = channel.infer(asking(channel.model, seconds=30), timeout=timeout)
            await channel.end(call, None, "DEADLINE_EXCEEDED")
            stream = channel.stream(timeout=timeout)
            with suppress(grpc.aio.AioRpcError, asyncio.CancelledError, asyncio.InvalidStateError):
                await stream.write(asking(channel.model, items=10**6, seconds=0.001))
                async for _ in stream:
                    pass
            await channel.stopped(stream, "DEADLINE_EXCEEDED")


async def leaves(site: Site, choose: random.Random) -> None:
    """Streams whose client reads a little and leaves, or half-closes and reads all."""
    async with Channel(site, choose, "leaves") as channel:
        for _ in range(10):
            call = channel.stream()
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.write(asking(channel.model, items=choose.choice((0, 3, 10**6)), seconds=0.001))
                if choose.random() < 0.5:
                    await call.write(asking(channel.model, items=2))
                if choose.random() < 0.5:
                    await call.done_writing()
            await asyncio.sleep(choose.random() * 0.05)
            call.cancel()
            await channel.stopped(call, "OK", "CANCELLED")


async def slow_reads(site: Site, choose: random.Random) -> None:
    """Streams that are read far slower than they are made."""
    async with Channel(site, choose, "slow reads") as channel:
        streams = [channel.stream() for _ in range(4)]
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for call in streams:
                await call.write(asking(channel.model, items=10**6, size=100_000))
            for _ in range(10):
                for call in streams:
                    await call.read()
                await asyncio.sleep(0.1)
        for call in streams:
            call.cancel()
            await channel.stopped(call, "CANCELLED")


async def errors(site: Site, choose: random.Random) -> None:
    """Calls that the server refuses."""
    async with Channel(site, choose, "errors") as channel:
        infer, large = channel.infer, bytes(LARGEST + 1)
        unknown = ModelInferRequest(model_name="nobody").SerializeToString()
        await asyncio.gather(
            channel.end(channel.own.unary_unary("/nobody.Service/Nothing")(b""), None, "UNIMPLEMENTED"),
            channel.end(infer(b"\xff\xff garbage"), None, "INTERNAL", "INVALID_ARGUMENT"),
            channel.end(infer(b"", metadata=(("x-long", "a" * 20_000),)), None, "RESOURCE_EXHAUSTED"),
            channel.end(infer(large), None, "RESOURCE_EXHAUSTED"),
            channel.end(infer(large, compression=grpc.Compression.Gzip), None, "RESOURCE_EXHAUSTED"),
            channel.end(infer(unknown), None, "NOT_FOUND"),
        )
    await asyncio.sleep(0.2)


CLIENTS = (calls, tensors, cancels, deadlines, leaves, slow_reads, errors)
