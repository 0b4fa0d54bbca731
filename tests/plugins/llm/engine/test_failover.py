"""Streams whose engine is lost: they continue at another one, or end with an error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("tokenizers")

from inferstream.errors import WorkerLost
from inferstream.testing import InProcess, run
from inferstream.types import InferenceResponse
from tests.fake_engine import STORY, FakeEngine, events, write_tokenizer
from tests.plugins.llm.engine.served import build_engine, request, running, text_of, until, write_settings
from tests.plugins.llm.engine.served import protocol as protocol

pytestmark = pytest.mark.usefixtures("protocol")


class Pair:
    """A model with two engines, of which the first serves one request and is then stopped by `lose`."""

    def __init__(self, client: InProcess, engines: list[FakeEngine], servers: list[Any]) -> None:
        self.client, self.engines, self.servers = client, engines, servers

    @property
    def serving(self) -> int:
        """The engine that has received a request."""
        return next(at for at in (0, 1) if events(self.engines[at].control, "generate"))

    async def lose(self) -> None:
        await self.servers[self.serving].stop(0)

    async def interrupted(self, **options: Any) -> list[InferenceResponse]:
        """The responses to a request whose engine is lost after three of them."""
        found: list[InferenceResponse] = []
        async for each in self.client.stream("llm", request("one two", **options)):
            found.append(each)
            if len(found) == 3:
                await self.lose()
        return found


@asynccontextmanager
async def pair(folder: Path, targets: int = 2, pace: float = 0.002, **extra: Any) -> AsyncIterator[Pair]:
    tokenizer = write_tokenizer(folder / "tokenizer")
    engines = [build_engine(tokenizer, folder / f"control{at}", pace=pace) for at in (0, 1)]
    addresses = [f"unix:{folder}/engine{at}" for at in (0, 1)]
    async with running(engines[0], addresses[0]) as one, running(engines[1], addresses[1]) as other:
        write_settings(folder / "models" / "llm", {"target": addresses[:targets], **extra})
        async with run(str(folder / "models")) as client:
            yield Pair(client, engines, [one, other])


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1, "seed": 3}])
async def test_text_continues_at_other_engine(tmp_path: Path, options: Any) -> None:
    async with pair(tmp_path) as served:
        found = await served.interrupted(max_tokens=100, min_tokens=5, **options)
        assert text_of(found) == STORY
        assert [each.parameters.get("resumed") for each in found if each.parameters.get("resumed")] == []
        last = found[-1].parameters
        first, second = (
            events(served.engines[at].control, "generate")[0] for at in (served.serving, 1 - served.serving)
        )
        written = len(second["ids"]) - len(first["ids"])
        assert second["ids"][: len(first["ids"])] == first["ids"]
        assert second["max_tokens"] == 100 - written
        assert second.get("min_tokens", 0) == max(5 - written, 0)
        assert last.get("prompt_tokens") == len(first["ids"])
        assert last.get("completion_tokens") == len(served.engines[0].story)


async def test_sampled_text_continues_with_announcement(tmp_path: Path) -> None:
    async with pair(tmp_path, failover="always") as served:
        found = await served.interrupted(temperature=1, max_tokens=100)
        assert text_of(found) == STORY
        resumed = [each for each in found if each.parameters is not None and each.parameters.get("resumed")]
        assert len(resumed) == 1
        assert resumed[0].outputs[0].data[0]
        assert resumed[0].parameters.get("token_id") is not None


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ({"failover": "off"}, {"temperature": 0}),
        ({}, {"temperature": 1}),
        ({}, {"temperature": 0, "presence_penalty": 1}),
        ({"failover": "always"}, {"temperature": 0, "response_format": {"type": "json_object"}}),
    ],
)
async def test_text_that_cannot_continue_ends_with_error(tmp_path: Path, extra: Any, options: Any) -> None:
    async with pair(tmp_path, **extra) as served:
        with pytest.raises(WorkerLost, match="The engine of model llm was lost"):
            await served.interrupted(max_tokens=100, **options)
        assert not events(served.engines[1 - served.serving].control, "generate")


async def test_request_without_text_moves(tmp_path: Path) -> None:
    """Nothing is written yet, so nothing has to fit what follows."""
    async with pair(tmp_path) as served:
        for engine in served.engines:
            (engine.control / "hang").touch()
        call = served.client.infer("llm", request("one two", temperature=1, max_tokens=100))

        async def lose() -> None:
            await until(
                lambda: (
                    events(served.engines[0].control, "generate")
                    or events(served.engines[1].control, "generate")
                )
            )
            await served.lose()
            (served.engines[1 - served.serving].control / "hang").unlink()

        whole, _ = await asyncio.gather(call, lose())
        assert whole.outputs[0].data[0] == STORY


async def test_request_that_loses_engines_is_given_up(tmp_path: Path) -> None:
    async with pair(tmp_path, failover_timeout=5) as served:
        for engine in served.engines:
            (engine.control / "reason").write_text("abort")
        with pytest.raises(WorkerLost, match=r"it (aborted|cancelled) the request"):
            await served.client.infer("llm", request("one two"))
        calls = sum(len(events(engine.control, "generate")) for engine in served.engines)
        assert calls == 3


async def test_hanging_stream_of_sick_engine_moves(tmp_path: Path) -> None:
    async with pair(tmp_path) as served:
        found: list[InferenceResponse] = []
        async for each in served.client.stream("llm", request("one two", temperature=0)):
            found.append(each)
            if len(found) == 2:
                sick = served.engines[served.serving].control
                (sick / "hang").touch()
                (sick / "unhealthy").touch()
        assert text_of(found) == STORY
