"""Models on a GPU: devices of workers, PyTorch, memory of the device and its end, a language model. Needs NVIDIA's."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from inferstream import Client
from inferstream.processes.devices import visible_devices
from tests.serving import Running, eventually, write_model

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not visible_devices(), reason="needs an NVIDIA GPU")

MB = 10**6

CODE = """
import os

import torch

from inferstream import MLModel
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput


class OnDevice(MLModel):
    async def load(self) -> bool:
        size = self.settings.parameters.extra["megabytes"] * 1_000_000
        self.ballast = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        more = torch.zeros(payload.inputs[0].data[0] * 1_000_000, dtype=torch.uint8, device="cuda")
        more += 1
        device = [os.environ.get("CUDA_VISIBLE_DEVICES", ""), torch.cuda.get_device_name()]
        outputs = [
            ResponseOutput(name="device", shape=[2], datatype="BYTES", data=device),
            ResponseOutput(name="sum", shape=[1], datatype="INT64", data=[int(more.sum().item())]),
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(models: dict[str, dict], **settings: object) -> Running:
        folder = tmp_path / "models"
        folder.mkdir(exist_ok=True)
        for name, its in models.items():
            parameters = {"extra": {"megabytes": its.pop("megabytes", 1)}}
            write_model(folder, name, "device.OnDevice", CODE, name=name, parameters=parameters, **its)
        (folder / "settings.json").write_text(json.dumps(settings))
        running.append(Running(folder, within=180))
        return running[-1]

    yield start
    for server in running:
        assert server.stop(60) == 0, server.text()


def asked(server: Running, model: str, megabytes: int = 1) -> httpx.Response:
    tensor = {"name": "megabytes", "shape": [1], "datatype": "INT64", "data": [megabytes]}
    url = f"{server.url}/v2/models/{model}/infer"
    return httpx.post(url, json={"inputs": [tensor]}, timeout=120)


def used(server: Running) -> int:
    """Bytes that the workers of a server hold on the first device, as NVIDIA's library tells it."""
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    workers = server.workers()
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    return sum(each.usedGpuMemory or 0 for each in running if each.pid in workers)


def test_workers_are_assigned_devices_in_rotation(serve: Callable[..., Running]) -> None:
    devices = visible_devices()
    server = serve({"a": {"devices": "auto", "parallel_workers": 2 * len(devices)}})
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: asked(server, "a").json(), range(24))]
    outputs = [{each["name"]: each["data"] for each in answer["outputs"]} for answer in answers]
    assert {each["device"][0] for each in outputs} == {*devices}
    assert {each["sum"][0] for each in outputs} == {MB}
    assert len(server.workers()) == 2 * len(devices)
    pytest.importorskip("pynvml")  # PyTorch in workers is not asked
    assert server.metric("inferstream_gpu_memory_used_bytes", device="0") > 0


def test_programs_give_equal_results_on_device_and_cpu(tmp_path: Path) -> None:
    from tests.artefacts import models, modules

    folder = tmp_path / "models"
    flowers = models.FLOWERS[5::10].astype(np.float32)
    scale = np.ones((len(flowers), 1), np.float32)
    expected = models.classifier().predict_proba(models.FLOWERS[5::10])
    for name, write in (("exported", modules.exported), ("scripted", modules.scripted)):
        for device in ("cuda", "cpu"):
            where = folder / f"{name}-{device}"
            where.mkdir(parents=True)
            settings = {
                "name": where.name,
                "implementation": "inferstream.plugins.frameworks.torch.TorchModel",
                "parameters": {"uri": write(where).name, "extra": {"device": device}},
            }
            (where / "model-settings.json").write_text(json.dumps(settings))
    running = Running(folder, within=180)
    with Client(running.url) as client:
        for name in ("exported", "scripted"):
            answers = [
                client.predict(f"{name}-{device}", flowers=flowers, scale=scale) for device in ("cuda", "cpu")
            ]
            for answer in answers:
                (probabilities,) = (each for each in answer.values() if np.asarray(each).ndim == 2)
                assert np.allclose(np.asarray(probabilities), expected, atol=1e-3)
    assert running.stop(60) == 0, running.text()


def test_device_limit_holds_while_models_change(serve: Callable[..., Running]) -> None:
    pytest.importorskip("pynvml")
    limit = 4_000 * MB
    names = [f"m{index}" for index in range(6)]
    server = serve(
        {name: {"megabytes": 800, "load": "demand"} for name in names},
        parallel_workers=1,
        max_device_memory={"0": "4GB"},
    )
    seen, over = [], threading.Event()

    def sample() -> None:
        while not over.wait(0.05):
            seen.append(used(server))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        trace = random.Random(7)
        with ThreadPoolExecutor(2) as pool:
            answers = [*pool.map(lambda name: asked(server, name), trace.choices(names, k=24))]
    finally:
        over.set()
        sampler.join()
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert 1_000 * MB < max(seen) <= limit, max(seen)


@pytest.mark.parametrize("workers", [0, 1])
def test_device_out_of_memory_is_503_and_next_call_works(serve: Callable[..., Running], workers: int) -> None:
    server = serve({"a": {"parallel_workers": workers}})
    assert asked(server, "a").status_code == 200
    refused = asked(server, "a", 10**6)
    assert (refused.status_code, "ran out of memory" in refused.text) == (503, True), refused.text
    assert "CUDA" not in refused.text
    assert asked(server, "a").json()["outputs"][1]["data"] == [MB]


def test_language_model_output_on_device_matches_generate(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.plugins.llm.transformers import tiny

    folder = tmp_path / "models"
    tiny.write(folder / "tiny", context=2048, dtype="float32", device="cuda")
    alone = tiny.Alone(folder / "tiny")
    prompts = [" ".join(tiny.WORDS[: 1 + index % 7]) for index in range(16)]
    running = Running(folder, within=300, HF_HUB_OFFLINE="1")

    def one(prompt: str) -> str:
        body = {"prompt": prompt, "max_tokens": 20, "temperature": 0}
        answer = httpx.post(f"{running.url}/v2/models/tiny/generate", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()["text"]

    with ThreadPoolExecutor(16) as pool:
        texts = [*pool.map(one, prompts)]
    assert texts == [alone.text(alone.tokens(prompt, 20)) for prompt in prompts]

    def active() -> float:
        return running.metric("inferstream_streams_active", model="tiny")

    url, endless = f"{running.url}/v2/models/tiny/generate_stream", {"prompt": "one", "ignore_eos": True}
    with httpx.stream("POST", url, json=endless, timeout=60) as response:
        next(response.iter_lines())
        assert eventually(lambda: active() == 1, 20)
    assert eventually(lambda: active() == 0, 20)
    assert running.stop(60) == 0, running.text()
