"""Models in a test, as an author of one writes it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from inferstream import (
    App,
    InferenceRequest,
    InferenceResponse,
    MLModel,
    ModelError,
    ModelSettings,
    NumpyCodec,
    RequestInput,
    Settings,
    decode_args,
    testing,
)
from inferstream.errors import CodecError, InferenceFailed, InvalidRequest, InvalidSettings, ModelLoadFailed


class Doubler(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray) -> np.ndarray:
        return x * 2

    @decode_args
    async def predict_stream(self, prompt: list[str]) -> AsyncIterator[list[str]]:
        for word in prompt[0].split():
            yield [word]


class Sums(MLModel):
    """Says what it has been told, so far, and notes its end."""

    ended = 0

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        total = 0
        try:
            async for payload in payloads:
                total += int(NumpyCodec.decode_input(payload.inputs[0]).sum())
                yield self.encode_response(np.array([total]))
        finally:
            self.ended += 1


class Ticking(MLModel):
    ended = 0

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        try:
            while True:
                yield self.encode_response(np.array([1]))
                await asyncio.sleep(0.001)
        finally:
            self.ended += 1


class Failing(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if payload.inputs[0].name == "model":
            raise ModelError("no tea today", status_code=418)
        raise ValueError("secret")


async def test_class_model_is_tested_in_five_lines() -> None:
    async with testing.run(Doubler) as app:
        response = await app.infer("Doubler", x=np.array([1.0, 2.0]))
    assert testing.arrays(response)["output-0"].ravel().tolist() == [2.0, 4.0]


async def test_function_values_are_complete_responses() -> None:
    app = App()

    @app.model
    def shout(text: str) -> str:
        return text.upper()

    @app.model
    def letters(text: str) -> Iterator[str]:
        yield from text

    async with testing.run(app) as client:
        found = [await client.infer("shout", text="a")]
        found += [response async for response in client.stream("letters", text="A")]
    for response in found:
        assert isinstance(response, InferenceResponse)
        assert response.model_dump()["outputs"] == [
            {"name": "output", "shape": [1], "datatype": "BYTES", "data": ["A"]}
        ]


async def test_stream_is_read_as_produced() -> None:
    async with testing.run(Doubler) as app:
        items = [item async for item in app.stream("Doubler", prompt="two words")]
    assert [testing.arrays(item)["output-0"].item() for item in items] == ["two", "words"]


def test_sync_test_can_call_models() -> None:
    with testing.run({"double": Doubler}) as app:
        assert testing.arrays(app.infer("double", x=[[1, 2]]))["output-0"].tolist() == [[2, 4]]
        assert len(app.stream("double", prompt="one two three")) == 3


async def test_sync_code_runs_models_inside_a_running_loop() -> None:
    with testing.run({"double": Doubler}) as app:
        assert testing.arrays(app.infer("double", x=[[1, 2]]))["output-0"].tolist() == [[2, 4]]
        assert len(app.stream("double", prompt="two words")) == 2


async def test_model_instance_is_served_and_gets_later_requests() -> None:
    model = Sums(ModelSettings(implementation=Sums, name="sums"))

    async def more() -> AsyncIterator[InferenceRequest]:
        yield testing.build_request({"x": 2})

    async with testing.run(model) as app:
        first = testing.build_request({"x": 1})
        totals = [testing.arrays(item) async for item in app.stream("sums", first, more())]
        assert model.ready
    assert [int(next(iter(total.values())).item()) for total in totals] == [1, 3]
    assert model.ended == 1
    assert not model.ready


async def test_unimportable_class_is_served() -> None:
    class Hidden(Doubler):
        pass

    settings = ModelSettings(name="hidden", implementation=Hidden, max_batch_size=4, max_batch_time=0.01)
    async with testing.run([Doubler, settings]) as app:
        both = await asyncio.gather(*(app.infer("hidden", x=np.array([[n]])) for n in (1, 2)))
    assert [testing.arrays(response)["output-0"].item() for response in both] == [2, 4]


async def test_worker_cannot_import_process_local_class() -> None:
    class Hidden(Doubler):
        pass

    with pytest.raises(ModelLoadFailed, match="move the class to the top of a module"):
        async with testing.run(Hidden, parallel_workers=1):
            pass


async def test_folder_is_served_through_its_workers(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    code = "from inferstream import MLModel\nclass Echo(MLModel):\n"
    code += "    async def predict(self, payload):\n        return self.encode_response(['here'])\n"
    (folder / "echoing.py").write_text(code)
    (folder / "model-settings.json").write_text(json.dumps({"implementation": "echoing.Echo"}))
    async with testing.run(folder, parallel_workers=1) as app:
        response = await app.infer("folder", x=1)
    assert next(iter(testing.arrays(response).values())).item() == "here"


async def test_model_and_server_errors_are_raised() -> None:
    async with testing.run(Failing) as app:
        with pytest.raises(ModelError, match="no tea today"):
            await app.infer("Failing", model=1)
        with pytest.raises(InferenceFailed) as failed:
            await app.infer("Failing", x=1)
        assert isinstance(failed.value.__cause__, ValueError)
        broken = RequestInput(name="x", datatype="FP32", shape=[3], data=[1.0])
        with pytest.raises(InvalidRequest, match="needs 3 values"):
            await app.infer("Failing", x=broken)


async def test_closing_a_stream_runs_the_model_finally_block() -> None:
    model = Ticking(ModelSettings(implementation=Ticking))
    async with testing.run(model) as app:
        stream = app.stream("Ticking", x=1)
        await anext(stream)
        assert not model.ended
        await stream.aclose()
        assert model.ended == 1


@pytest.mark.parametrize(
    ("value", "datatype", "shape"),
    [
        (np.zeros((2, 3), np.float32), "FP32", [2, 3]),
        (np.float64(1), "FP64", [1]),
        (1, "INT64", [1]),
        ([True, False], "BOOL", [2]),
        ("text", "BYTES", [1, 1]),
        (["a", "b", None], "BYTES", [3, 1]),
        (b"\xff", "BYTES", [1]),
    ],
)
def test_values_become_tensors(value, datatype: str, shape: list[int]) -> None:
    tensor = testing.encode("x", value)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", datatype, shape)


def test_unsupported_value_is_named() -> None:
    with pytest.raises(CodecError, match='"x"'):
        testing.encode("x", object())


@pytest.mark.parametrize(
    ("served", "settings", "reason"),
    [
        ("no/such/folder", {}, "there is no file or folder"),
        (42, {}, "42 is neither a folder"),
        ([Doubler, ModelSettings(name="Doubler", implementation=Failing)], {}, "two models have the name"),
        ({"../up": Doubler}, {}, "not a usable model name"),
        (Doubler, {"http_prot": 1}, 'did you mean "http_port"'),
        (Doubler, {"shutdown_grace": "soon"}, 'field "shutdown_grace"'),
    ],
)
def test_unservable_object_is_named(served, settings: dict, reason: str) -> None:
    with pytest.raises(InvalidSettings, match=reason):
        testing.run(served, **settings)


async def test_full_settings_and_mapping_names_apply(tmp_path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    settings = {"name": "folded", "implementation": "tests.unit.test_testing.Doubler"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    async with testing.run(Settings(model_repository_root=str(tmp_path))) as app:
        assert await app.infer("folded", x=np.array([1.0]))
    given = ModelSettings(implementation=Doubler)
    async with testing.run({"named": given}) as app:
        assert await app.infer("named", x=np.array([1.0]))
    assert given.name != "named"


async def test_invalid_inputs_are_named() -> None:
    async with testing.run(Doubler) as app:
        with pytest.raises(CodecError, match='input "x"'):
            await app.infer("Doubler", x=[[1], [2, 3]])
        with pytest.raises(TypeError, match="no input x"):
            await app.infer("Doubler", InferenceRequest(inputs=[]), x=[1])
