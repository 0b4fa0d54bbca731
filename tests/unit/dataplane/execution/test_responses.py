"""The end of a model's stream: what its `finally` does, and who waits for it."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from inferstream import App
from inferstream.dataplane.call import Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.execution.responses import translate_error
from inferstream.errors import InferenceFailed
from inferstream.processes.errors import OutOfMemory
from inferstream.testing import run
from inferstream.types import Headers, InferenceRequest

FLOAT, INT64 = 1, 7
"""Of onnx.TensorProto."""

app = App()


@app.model
async def hangs_up() -> AsyncIterator[str]:
    task = asyncio.create_task(asyncio.sleep(3600))
    try:
        while True:
            yield "a"
    finally:
        task.cancel()
        await task


async def test_cancelled_cleanup_does_not_cancel_the_reader(caplog: pytest.LogCaptureFixture) -> None:
    async with run(app) as client:
        caller = Caller(Headers(()), "", asyncio.current_task())
        admission = client.application.models.admit("hangs_up", None, caller)
        async with await admission.open(Operation.STREAM, InferenceRequest(inputs=[])) as reply:
            await reply.aclose(None)
    assert "failed while cleaning up" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"
        ),
    ],
)
def test_out_of_memory_in_model_is_not_an_inference_error(error: BaseException) -> None:
    assert isinstance(translate_error(error, "m", "1"), OutOfMemory)


def test_out_of_memory_in_onnx_graph_is_not_an_inference_error() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    helper = pytest.importorskip("onnx").helper
    shape = helper.make_tensor_value_info("shape", INT64, [1])
    values = helper.make_tensor_value_info("values", FLOAT, None)
    node = helper.make_node("ConstantOfShape", ["shape"], ["values"])
    graph = helper.make_graph([node], "graph", [shape], [values])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(Exception) as raised:
        session.run(None, {"shape": np.array([10**13])})
    assert isinstance(translate_error(raised.value, "m", "1"), OutOfMemory)


def test_other_errors_are_not_out_of_memory() -> None:
    assert isinstance(translate_error(ValueError("out of memory"), "m", "1"), InferenceFailed)
    assert isinstance(translate_error(RuntimeError("broken"), "m", "1"), InferenceFailed)
