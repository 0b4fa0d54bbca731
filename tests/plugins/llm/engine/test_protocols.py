"""What only one of the protocols has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("tokenizers")

from inferstream.errors import DeadlineExceeded, InvalidRequest, ModelError, Overloaded, WorkerLost
from tests.fake_engine import events
from tests.plugins.llm.engine import served as engines
from tests.plugins.llm.engine.served import request, serve, until


@pytest.fixture
def _inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "current", "vllm.inference")


async def test_allowed_tokens_are_refused_without_a_field(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        with pytest.raises(InvalidRequest, match="allowed_token_ids is not taken"):
            await served.stream(allowed_token_ids="[1]")


@pytest.mark.usefixtures("_inference")
async def test_allowed_tokens_seed_and_adapter_reach_the_engine(tmp_path: Path) -> None:
    async with serve(tmp_path, {"lora": "poet"}) as served:
        await served.stream(allowed_token_ids="[5, 6]", seed=2**40 + 5, max_tokens=1)
        [noted] = events(served.engine.control, "request")
        assert (noted["allowed"], noted["lora"], noted["seed"]) == ([5, 6], "poet", 2**40 + 5)


@pytest.mark.usefixtures("_inference")
async def test_unknown_adapter_fails_the_load(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r'no LoRA adapter "pilot" \(available: pirate, poet\)'):
        async with serve(tmp_path, {"lora": "pilot"}):
            pass


@pytest.mark.usefixtures("_inference")
async def test_engine_without_token_ids_fails_the_load(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "text only").touch()
    with pytest.raises(Exception, match="its engine does not accept token IDs"):
        async with serve(tmp_path):
            pass


@pytest.mark.usefixtures("_inference")
@pytest.mark.parametrize("streamed", [True, False])
async def test_cancelled_request_is_aborted(tmp_path: Path, streamed: bool) -> None:
    async with serve(tmp_path, pace=0.001) as served:
        payload = request("one two", ignore_eos=True)

        async def read() -> Any:
            if streamed:
                return [each async for each in served.client.stream("llm", payload)]
            return await served.client.infer("llm", payload)

        call = asyncio.ensure_future(read())
        await until(lambda: events(served.engine.control, "generate"))
        call.cancel()
        await until(lambda: events(served.engine.control, "aborted"))
        await served.stream(max_tokens=2)
        assert len(events(served.engine.control, "aborted")) == 1  # a request that ends is not aborted


@pytest.mark.usefixtures("_inference")
async def test_request_beyond_its_deadline_is_aborted(tmp_path: Path) -> None:
    async with serve(tmp_path, pace=0.01) as served:
        with pytest.raises(DeadlineExceeded):
            await served.stream(ignore_eos=True, timeout=1_500_000)
        await until(lambda: events(served.engine.control, "aborted"))


@pytest.mark.usefixtures("_inference")
async def test_request_that_the_engine_finds_late_is_aborted(tmp_path: Path) -> None:
    async with serve(tmp_path) as served:
        served.control("refuse", "DEADLINE_EXCEEDED")
        with pytest.raises(DeadlineExceeded):
            await served.stream()
        await until(lambda: events(served.engine.control, "aborted"))


@pytest.fixture
def _openengine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "current", "openengine")


@pytest.mark.usefixtures("_openengine")
async def test_openengine_gets_model_adapter_and_aborts(tmp_path: Path) -> None:
    async with serve(tmp_path, {"lora": "poet"}, pace=0.01) as served:
        await served.stream(seed=2**40 + 5, max_tokens=1)
        [noted] = events(served.engine.control, "request")
        assert (noted["model"], noted["lora"]) == ("served", "poet")
        assert not events(served.engine.control, "aborted")
        responses = served.client.stream("llm", request("one two", ignore_eos=True))
        await anext(responses)
        await responses.aclose()
        await until(lambda: events(served.engine.control, "aborted"))


@pytest.mark.usefixtures("_openengine")
@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("role", "2", "has the role of prefill or decode"),
        ("revision", "2", "does not serve the protocol openengine"),
        ("text only", "", "does not accept token IDs"),
    ],
)
async def test_openengine_that_cannot_be_used_fails_the_load(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / name).write_text(text)
    with pytest.raises(Exception, match=reason):
        async with serve(tmp_path):
            pass


@pytest.mark.usefixtures("_openengine")
@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (1, InvalidRequest, "The engine does not accept the request: code 1."),
        (5, Overloaded, "The engine has no room for the request."),
        (11, WorkerLost, "The engine of model llm was lost: code 11."),
        (12, ModelError, "The engine of model llm failed on the request."),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_openengine_errors_are_errors_of_the_call(
    tmp_path: Path, code: int, kind: type[Exception], reason: str, streamed: bool
) -> None:
    async with serve(tmp_path) as served:
        served.control("error", str(code))
        with pytest.raises(kind) as caught:
            if streamed:
                await served.stream()
            else:
                await served.client.infer("llm", request("one two"))
        assert str(caught.value) == reason
