"""Triton's four clients."""

import asyncio
import importlib
import uuid
from collections.abc import Awaitable, Callable, Iterator
from queue import Queue
from typing import Any

import httpx
import numpy as np
import pytest

from tests.serving import Running

from .rows import awaited, methods_of, without_a_row

pytest.importorskip("tritonclient")

from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as memory

LIBRARIES = {
    name: importlib.import_module(f"tritonclient.{name}") for name in ("http", "http.aio", "grpc", "grpc.aio")
}
METHODS = {name: [*methods_of(library.InferenceServerClient)] for name, library in LIBRARIES.items()}
VALUES = np.arange(3, dtype=np.float32)

Call = Callable[[Any, Any], Awaitable[None]]
"""What calls a method, of a client and its library."""

CALLS: dict[str, Call] = {}

LOCAL = {
    "get_system_shared_memory_status": "register_system_shared_memory calls it",
    "unregister_system_shared_memory": "register_system_shared_memory calls it",
    "plugin": "register_plugin calls it",
    "unregister_plugin": "register_plugin calls it",
    "parse_response_body": "generate_request_body calls it",
    "stop_stream": "start_stream calls it",
    "async_stream_infer": "start_stream calls it",
}
"""Methods that the test of another one calls."""

NOT_HERE = {
    "get_cuda_shared_memory_status": ("cuda_shared_memory", ()),
    "register_cuda_shared_memory": ("cuda_shared_memory", ("region", b"aGFuZGxl", 0, 16)),
    "unregister_cuda_shared_memory": ("cuda_shared_memory", ("region",)),
}
"""Extensions that are not here yet, and arguments of the methods that ask for them."""


def call(function: Call) -> Call:
    CALLS[function.__name__] = function
    return function


def given(library: Any) -> list[Any]:
    tensor = _classes(library).InferInput("x", [3], "FP32")
    tensor.set_data_from_numpy(VALUES)
    return [tensor]


def _classes(library: Any) -> Any:
    """The module with the tensors of a library: those of an asynchronous one are beside it."""
    return importlib.import_module(library.__name__.removesuffix(".aio"))


@call
async def is_server_live(client: Any, _: Any) -> None:
    assert await awaited(client.is_server_live()) is True


@call
async def is_server_ready(client: Any, _: Any) -> None:
    assert await awaited(client.is_server_ready()) is True


@call
async def is_model_ready(client: Any, _: Any) -> None:
    assert await awaited(client.is_model_ready("echo")) is True
    assert await awaited(client.is_model_ready("nobody")) is False


@call
async def get_server_metadata(client: Any, _: Any) -> None:
    assert _field(await awaited(client.get_server_metadata()), "name") == "inferstream"


@call
async def get_model_metadata(client: Any, _: Any) -> None:
    assert _field(await awaited(client.get_model_metadata("echo")), "name") == "echo"


@call
async def get_model_repository_index(client: Any, _: Any) -> None:
    index = await awaited(client.get_model_repository_index())
    models = index if isinstance(index, list) else index.models
    assert "echo" in [_field(each, "name") for each in models]


@call
async def unload_model(client: Any, _: Any) -> None:
    await awaited(client.unload_model("spare"))
    assert await awaited(client.is_model_ready("spare")) is False
    await awaited(client.load_model("spare"))


@call
async def load_model(client: Any, _: Any) -> None:
    await awaited(client.load_model("spare"))
    assert await awaited(client.is_model_ready("spare")) is True


@call
async def infer(client: Any, library: Any) -> None:
    answer = await awaited(client.infer("echo", given(library)))
    assert answer.as_numpy("x").tolist() == VALUES.tolist()


@call
async def get_inference_statistics(client: Any, library: Any) -> None:
    await awaited(client.infer("echo", given(library)))
    (of,) = _field(await awaited(client.get_inference_statistics("echo")), "model_stats")
    assert _field(of, "name") == "echo"
    success = _field(_field(of, "inference_stats"), "success")
    assert int(_field(success, "count")) > 0
    every = _field(await awaited(client.get_inference_statistics()), "model_stats")
    assert {"echo", "spare"} <= {_field(each, "name") for each in every}


@call
async def get_model_config(client: Any, _: Any) -> None:
    answer = await awaited(client.get_model_config("echo"))
    config = answer if isinstance(answer, dict) else answer.config
    assert (_field(config, "name"), _field(config, "max_batch_size")) == ("echo", 0)
    assert _field(_field(config, "model_transaction_policy"), "decoupled") is False


@call
async def register_system_shared_memory(client: Any, library: Any) -> None:
    """With the functions of `tritonclient.utils.shared_memory`."""
    region = memory.create_shared_memory_region("region", f"/tests-{uuid.uuid4().hex}", VALUES.nbytes)
    memory.set_shared_memory_region(region, [VALUES])
    name = uuid.uuid4().hex
    await awaited(client.register_system_shared_memory(name, region._shm_key, VALUES.nbytes))
    status = await awaited(client.get_system_shared_memory_status(name))
    assert len(status if isinstance(status, list) else status.regions) == 1
    tensor = _classes(library).InferInput("x", [3], "FP32")
    tensor.set_shared_memory(name, VALUES.nbytes)
    answer = await awaited(client.infer("echo", [tensor]))
    assert answer.as_numpy("x").tolist() == VALUES.tolist()
    await awaited(client.unregister_system_shared_memory(name))
    memory.destroy_shared_memory_region(region)


@call
async def get_log_settings(client: Any, _: Any) -> None:
    assert _log(await awaited(client.get_log_settings()))["log_error"] is True


@call
async def update_log_settings(client: Any, _: Any) -> None:
    changed = await awaited(client.update_log_settings({"log_verbose_level": 1}))
    assert _log(changed)["log_verbose_level"] == 1
    assert _log(await awaited(client.update_log_settings({"log_verbose_level": 0})))["log_info"] is True
    with pytest.raises(InferenceServerException, match="log_file"):
        await awaited(client.update_log_settings({"log_file": "/tmp/elsewhere"}))


@call
async def get_trace_settings(client: Any, _: Any) -> None:
    assert _trace(await awaited(client.get_trace_settings("echo")))["trace_level"] == ["OFF"]


@call
async def update_trace_settings(client: Any, _: Any) -> None:
    same = await awaited(client.update_trace_settings("echo", {"trace_level": ["OFF"], "trace_rate": "1"}))
    assert _trace(same)["trace_level"] == ["OFF"]
    with pytest.raises(InferenceServerException, match="tracing_server"):
        await awaited(client.update_trace_settings("echo", {"trace_rate": "500"}))


@call
async def async_infer(client: Any, library: Any) -> None:
    if library.__name__.endswith("grpc"):
        answers: Queue[tuple[Any, Any]] = Queue()
        client.async_infer("echo", given(library), lambda result, error: answers.put((result, error)))
        answer, error = answers.get(timeout=30)
        assert error is None
    else:
        answer = client.async_infer("echo", given(library)).get_result()
    assert answer.as_numpy("x").tolist() == VALUES.tolist()


@call
async def start_stream(client: Any, library: Any) -> None:
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for _ in range(2):
        client.async_stream_infer("echo", given(library))
    for _ in range(2):
        answer, error = answers.get(timeout=30)
        assert error is None
        assert answer.as_numpy("x").tolist() == VALUES.tolist()
    client.stop_stream()


@call
async def stream_infer(client: Any, library: Any) -> None:
    async def requests() -> Any:
        for _ in range(2):
            yield {"model_name": "echo", "inputs": given(library)}

    answers = [result async for result, error in client.stream_infer(requests()) if error is None]
    assert [each.as_numpy("x").tolist() for each in answers] == [VALUES.tolist()] * 2


@call
async def generate_request_body(client: Any, library: Any) -> None:
    body, length = client.generate_request_body(given(library))
    headers = {"Inference-Header-Content-Length": str(length)}
    url = f"{client.served}/v2/models/echo/infer"
    answer = await asyncio.to_thread(httpx.post, url, content=body, headers=headers)
    size = answer.headers.get("inference-header-content-length")
    parsed = client.parse_response_body(answer.content, header_length=None if size is None else int(size))
    assert parsed.as_numpy("x").tolist() == VALUES.tolist()


@call
async def register_plugin(client: Any, library: Any) -> None:
    auth = importlib.import_module(f"{library.__name__}.auth")
    plugin = auth.BasicAuth("user", "password")
    client.register_plugin(plugin)
    assert client.plugin() is plugin
    assert await awaited(client.is_server_live())
    client.unregister_plugin()


@call
async def close(client: Any, _: Any) -> None:
    """The fixture of each test closes its client."""


def _log(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return answer
    return {
        name: getattr(each, each.WhichOneof("parameter_choice")) for name, each in answer.settings.items()
    }


def _trace(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return answer
    return {name: [*each.value] for name, each in answer.settings.items()}


def _field(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) else getattr(value, name)


def cases() -> Iterator[tuple[str, str]]:
    for library, methods in METHODS.items():
        yield from ((library, name) for name in methods if name in CALLS or name in NOT_HERE)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_method_has_a_row(library: str) -> None:
    assert without_a_row(METHODS[library], [*CALLS, *NOT_HERE], LOCAL) == []


@pytest.mark.parametrize(("library", "name"), [*cases()])
async def test_a_method(surface: Running, library: str, name: str) -> None:
    module, rpc = LIBRARIES[library], library.startswith("grpc")
    client = module.InferenceServerClient(surface.grpc if rpc else f"127.0.0.1:{surface.http_port}")
    client.served = surface.url
    try:
        if name in NOT_HERE:
            extension, arguments = NOT_HERE[name]
            with pytest.raises(InferenceServerException) as refused:
                await awaited(getattr(client, name)(*arguments))
            if rpc:
                assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
            else:
                assert f'"{extension}"' in refused.value.message()
        else:
            await CALLS[name](client, module)
    finally:
        await awaited(client.close())
