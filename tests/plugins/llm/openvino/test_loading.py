"""Loading with OpenVINO GenAI: settings, files that are not language models, and full caches."""

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import ModelLoadFailed
from inferstream.plugins.llm.openvino import OpenVino
from inferstream.plugins.llm.openvino.properties import read_properties
from inferstream.testing import run

from ..llamacpp.stand_in import asked, text_of
from .smollm2 import ANSWER, CAPITAL, Watched, path, settings_of


async def load(uri: Path, **extra: Any) -> None:
    await OpenVino(settings_of(uri, **extra)).load()


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"max_contxt": 5}, '"max_contxt" in parameters.extra: Extra inputs are not permitted'),
        ({"max_batch_size": 5}, '"max_batch_size" in parameters.extra: it belongs two levels up'),
        ({"max_context": 0}, '"max_context" in parameters.extra: Input should be greater than'),
        ({"cache_precision": "u4"}, '"cache_precision" in parameters.extra: Input should be'),
        ({"n_threads": 10**6}, '"n_threads" in parameters.extra: Input should be less than'),
    ],
)
async def test_invalid_setting_is_named(tmp_path: Path, extra: dict[str, Any], reason: str) -> None:
    (tmp_path / "model.gguf").touch()
    with pytest.raises(ModelLoadFailed) as failed:
        await load(tmp_path, **extra)
    assert reason in str(failed.value)


async def test_folder_without_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"holds neither openvino_model\.xml nor a \.gguf file"):
        await load(tmp_path)
    (tmp_path / "a.gguf").touch()
    (tmp_path / "b.gguf").touch()
    with pytest.raises(ModelLoadFailed, match=r"holds a\.gguf, b\.gguf; parameters\.uri has to name one"):
        await load(tmp_path)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_properties_are_in_header_of_gguf_file(tmp_path: Path) -> None:
    entries = [
        string("general.tags") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("b"),
        string("general.architecture") + struct.pack("<I", 8) + string("llama"),
        string("llama.vocab_size") + struct.pack("<II", 4, 7),
        string("llama.context_length") + struct.pack("<II", 4, 2058),
    ]
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    assert read_properties(file) == ("llama", 2058, 0)
    file.write_bytes(b"GGUF")
    assert read_properties(file) == ("", None, 0)
    file.write_bytes(b"GGML")
    with pytest.raises(ValueError, match="it is not a GGUF file"):
        read_properties(file)


async def test_file_that_is_not_a_language_model_is_refused(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    pytest.importorskip("openvino_genai")
    operations = openvino.opset13
    value = operations.parameter([1, 4], openvino.Type.f32, name="pixels")
    network = openvino.Model([operations.relu(value)], [value], "classifier")
    openvino.save_model(network, tmp_path / "openvino_model.xml")
    with pytest.raises(
        ModelLoadFailed, match=r"OpenVINO GenAI \S+ cannot read .*; the server's log says why"
    ):
        await load(tmp_path)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and no more")
    with pytest.raises(ModelLoadFailed, match=r"cannot read broken\.gguf"):
        await load(tmp_path / "broken.gguf")


async def test_streams_wait_for_room_in_the_cache() -> None:
    prompts = [f"{index}: " + "word " * 90 for index in range(3)]
    settings = settings_of(path(), max_active=3, max_context=160, cache_tokens=160)

    async with run(settings) as client:

        async def generate(prompt: str) -> str:
            request = asked({"prompt": prompt}, temperature=0, ignore_eos=True, max_tokens=30)
            return text_of([await client.infer("m", request)])

        together = await asyncio.gather(*map(generate, prompts))
        assert together == [await generate(prompt) for prompt in prompts]


async def test_shared_prefix_is_read_once() -> None:
    async with run(settings_of(path(), share_prefixes=True, prefill_budget=32)) as client:
        model, taken = Watched.last, []
        for end in ("one", "two"):
            before = model.steps
            await client.infer("m", asked({"prompt": "word " * 300 + end}, max_tokens=1))
            taken.append(model.steps - before)
    assert taken[0] > 5
    assert taken[1] <= 2


async def test_exported_folder_is_served(tmp_path: Path) -> None:
    library = pytest.importorskip("openvino_genai")
    file = tmp_path / "model.gguf"
    file.symlink_to(path())
    scheduler = library.SchedulerConfig()
    scheduler.num_kv_blocks = 1
    library.ContinuousBatchingPipeline(file, scheduler, "CPU", {"enable_save_ov_model": True})
    library.Tokenizer(file, enable_save_ov_model=True)
    file.unlink()
    config = {"model_type": "llama", "max_position_embeddings": 256, "vocab_size": 49152}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text('{"do_sample": true, "top_k": 1, "eos_token_id": 2}')
    async with run(settings_of(tmp_path)) as client:
        metadata = await client.application.models.model_metadata("m")
        found = metadata.parameters
        assert found is not None
        assert (found.get("context_length"), found.get("architecture")) == (256, "llama")
        assert text_of([await client.infer("m", asked(CAPITAL))]) == ANSWER
