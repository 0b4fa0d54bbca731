"""Engines that cannot be used fail the load with one clear error, before any request."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

pytest.importorskip("tokenizers")

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.plugins.llm.engine import Engine
from inferstream.plugins.llm.engine.settings import EngineSettings
from tests.fake_engine import TEMPLATE, FakeEngine, write_tokenizer
from tests.plugins.llm.engine.served import running


def model(extra: dict[str, Any], **settings: Any) -> Engine:
    return Engine(ModelSettings(name="llm", implementation=Engine, parameters={"extra": extra}, **settings))


async def refusal(extra: dict[str, Any], **settings: Any) -> str:
    made = model(extra, **settings)
    with pytest.raises(ModelLoadFailed) as caught:
        await made.load()
    assert made._engines is None
    return caught.value.message.removeprefix("Model llm did not load: ")


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, '"target" in parameters.extra: Field required'),
        ({"target": []}, '"target" in parameters.extra: List should have at least 1 item'),
        ({"target": "here"}, '"here" is neither host:port nor unix:/path'),
        ({"target": "http://here:80"}, '"http://here:80" is neither host:port nor unix:/path'),
        (
            {"target": "a:1", "protocol": "unknown"},
            "\"protocol\" in parameters.extra: Input should be 'vllm.grpc.engine'",
        ),
        (
            {"target": "a:1", "lora": "x"},
            "parameters.extra: the protocol vllm.grpc.engine has no LoRA adapters",
        ),
        (
            {"target": "a:1", "lora_name": "x"},
            '"lora_name" in parameters.extra: Extra inputs are not permitted',
        ),
        (
            {"target": "a:1", "protocol": "vllm.inference"},
            "parameters.extra: engines with the protocol vllm.inference do not send a tokenizer; set tokenizer",
        ),
        (
            {"target": "a:1", "protocol": "openengine"},
            "parameters.extra: engines with the protocol openengine do not send a tokenizer; set tokenizer",
        ),
        ({"target": "a:1", "failover": "never"}, '"failover" in parameters.extra'),
        ({"target": ["a:1", "b:1"], "command": ["x"]}, "a command starts one engine"),
        (
            {"target": "a:1", "command": ["/opt/no-such-engine"]},
            'command: there is no program "no-such-engine"',
        ),
    ],
)
async def test_wrong_settings_are_refused(extra: dict[str, Any], reason: str) -> None:
    assert reason in await refusal(extra)


async def test_target_without_engine_is_refused(tmp_path: Path) -> None:
    said = await refusal({"target": f"unix:{tmp_path}/nobody", "start_timeout": 0.1})
    assert said == "no engine at nobody: no connection."


async def test_other_protocol_is_refused(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix:{tmp_path}/other")
    await server.start()
    try:
        said = await refusal({"target": f"unix:{tmp_path}/other"})
        assert said == "other does not serve the protocol vllm.grpc.engine."
    finally:
        await server.stop(0)


async def test_command_that_exits_is_refused(tmp_path: Path) -> None:
    extra = {"target": f"unix:{tmp_path}/x", "command": [sys.executable, "-c", "raise SystemExit(3)"]}
    assert await refusal(extra) == "its command exited with code 3."


async def engine_refusal(folder: Path, change: Callable[[FakeEngine], object], **extra: Any) -> str:
    engine = FakeEngine(write_tokenizer(folder / "tokenizer"), folder / "control")
    change(engine)
    async with running(engine, f"unix:{folder}/engine"):
        return await refusal({"target": f"unix:{folder}/engine", **extra})


HINT = "; hint: set tokenizer to a folder with tokenizer.json."


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("model", '{"is_generation": false}', "the model of its engine does not generate text."),
        ("model", '{"max_context_length": 0}', "its engine reports no context length; set max_context."),
        ("unhealthy", "", "no engine at engine: it is not healthy: sick."),
        ("archive", "no zip", f"its engine sends no usable tokenizer: its archive cannot be read{HINT}"),
    ],
)
async def test_engine_without_usable_model_is_refused(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    def change(engine: FakeEngine) -> None:
        (engine.control / name).write_text(text)

    assert await engine_refusal(tmp_path, change, start_timeout=0.1) == reason


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (None, "there is no tokenizer.json"),
        ("{}", "tokenizer.json cannot be read"),
        ("", "tokenizer.json cannot be read"),
    ],
)
async def test_tokenizer_that_cannot_be_read_is_refused(
    tmp_path: Path, file: str | None, reason: str
) -> None:
    def change(engine: FakeEngine) -> None:
        path = engine.tokenizer / "tokenizer.json"
        path.unlink()
        if file is not None:
            path.write_text(file)

    said = await engine_refusal(tmp_path, change)
    assert said.startswith(f"its engine sends no usable tokenizer: {reason}")
    assert said.endswith(HINT)
    named = await engine_refusal(tmp_path / "again", lambda _: None, tokenizer=str(tmp_path / "tokenizer"))
    assert named.startswith(f"tokenizer: {reason}")


async def test_tokenizer_of_a_folder_is_used(tmp_path: Path) -> None:
    """It has another template than that of the engine, and no process has to limit it."""
    own = write_tokenizer(tmp_path / "own", None)
    (own / "chat_template.jinja").write_text("{{ bos_token }}[{{ messages[0]['content'] }}]")
    engine = FakeEngine(write_tokenizer(tmp_path / "tokenizer"), tmp_path / "control")
    async with running(engine, f"unix:{tmp_path}/engine"):
        for named, template in (
            (str(own), "{{ bos_token }}[{{ messages[0]['content'] }}]"),
            (None, TEMPLATE),
        ):
            extra = {"target": f"unix:{tmp_path}/engine", "tokenizer": named}
            made = model({name: value for name, value in extra.items() if value is not None})
            await made.load()
            assert made._tokenizer.chat_template == template
            await made.unload()


async def test_engine_that_starts_late_is_awaited(tmp_path: Path) -> None:
    engine = FakeEngine(write_tokenizer(tmp_path / "tokenizer"), tmp_path / "control")
    made = model({"target": f"unix:{tmp_path}/engine", "start_timeout": 20})
    loading = asyncio.ensure_future(made.load())
    await asyncio.sleep(0)
    async with running(engine, f"unix:{tmp_path}/engine"):
        assert await loading
        await made.unload()


def test_target_may_be_a_list_or_an_address() -> None:
    assert EngineSettings.model_validate({"target": "[::1]:5"}).target == ["[::1]:5"]
    assert EngineSettings.model_validate({"target": ["a.b-c:5", "unix:/x y"[:7]]}).target == [
        "a.b-c:5",
        "unix:/x",
    ]


def test_fetched_settings_start_no_engine() -> None:
    made = model({"target": "a:1", "command": [sys.executable]})
    refused: list[Any] = []

    def refuse(*what: Any) -> None:
        refused.append(what)
        raise ModelLoadFailed("refused")

    made._refuse_code = refuse  # type: ignore[method-assign]
    with pytest.raises(ModelLoadFailed, match="refused"):
        asyncio.run(made.load())
    assert refused == [(Path(), "an engine")]
