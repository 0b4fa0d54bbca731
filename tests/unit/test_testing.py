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


async def test_a_class_answers_in_five_lines() -> None:
    async with testing.run(Doubler) as app:
        response = await app.infer("Doubler", x=np.array([1.0, 2.0]))
    assert testing.arrays(response)["output-0"].ravel().tolist() == [2.0, 4.0]


async def test_values_of_functions_are_whole_responses() -> None:
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


async def test_a_stream_is_read_as_the_model_makes_it() -> None:
    async with testing.run(Doubler) as app:
        items = [item async for item in app.stream("Doubler", prompt="two words")]
    assert [testing.arrays(item)["output-0"].item() for item in items] == ["two", "words"]


def test_a_test_that_is_no_coroutine_asks_too() -> None:
    with testing.run({"double": Doubler}) as app:
        assert testing.arrays(app.infer("double", x=[[1, 2]]))["output-0"].tolist() == [[2, 4]]
        assert len(app.stream("double", prompt="one two three")) == 3


async def test_code_that_awaits_nothing_runs_models_where_an_event_loop_runs() -> None:
    with testing.run({"double": Doubler}) as app:
        assert testing.arrays(app.infer("double", x=[[1, 2]]))["output-0"].tolist() == [[2, 4]]
        assert len(app.stream("double", prompt="two words")) == 2


async def test_the_model_itself_is_served_and_later_requests_reach_the_call() -> None:
    model = Sums(ModelSettings(implementation=Sums, name="sums"))

    async def more() -> AsyncIterator[InferenceRequest]:
        yield testing.request_of({"x": 2})

    async with testing.run(model) as app:
        first = testing.request_of({"x": 1})
        totals = [testing.arrays(item) async for item in app.stream("sums", first, more())]
        assert model.ready
    assert [int(next(iter(total.values())).item()) for total in totals] == [1, 3]
    assert model.ended == 1
    assert not model.ready


async def test_a_class_that_no_import_finds_is_served() -> None:
    class Hidden(Doubler):
        pass

    settings = ModelSettings(name="hidden", implementation=Hidden, max_batch_size=4, max_batch_time=0.01)
    async with testing.run([Doubler, settings]) as app:
        both = await asyncio.gather(*(app.infer("hidden", x=np.array([[n]])) for n in (1, 2)))
    assert [testing.arrays(response)["output-0"].item() for response in both] == [2, 4]


async def test_a_worker_cannot_import_what_only_this_process_has() -> None:
    class Hidden(Doubler):
        pass

    with pytest.raises(ModelLoadFailed, match="move the class to the top of a module"):
        async with testing.run(Hidden, parallel_workers=1):
            pass


async def test_a_folder_answers_through_its_workers(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    code = "from inferstream import MLModel\nclass Echo(MLModel):\n"
    code += "    async def predict(self, payload):\n        return self.encode_response(['here'])\n"
    (folder / "echoing.py").write_text(code)
    (folder / "model-settings.json").write_text(json.dumps({"implementation": "echoing.Echo"}))
    async with testing.run(folder, parallel_workers=1) as app:
        response = await app.infer("folder", x=1)
    assert next(iter(testing.arrays(response).values())).item() == "here"


async def test_errors_are_those_of_the_model_and_the_server() -> None:
    async with testing.run(Failing) as app:
        with pytest.raises(ModelError, match="no tea today"):
            await app.infer("Failing", model=1)
        with pytest.raises(InferenceFailed) as failed:
            await app.infer("Failing", x=1)
        assert isinstance(failed.value.__cause__, ValueError)
        broken = RequestInput(name="x", datatype="FP32", shape=[3], data=[1.0])
        with pytest.raises(InvalidRequest, match="needs 3 values"):
            await app.infer("Failing", x=broken)


async def test_leaving_a_stream_runs_the_finally_of_the_model() -> None:
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


def test_a_value_that_no_codec_knows_is_named() -> None:
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
def test_what_cannot_be_served_is_named(served, settings: dict, reason: str) -> None:
    with pytest.raises(InvalidSettings, match=reason):
        testing.run(served, **settings)


async def test_whole_settings_and_names_of_a_mapping_count(tmp_path) -> None:
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


async def test_inputs_that_cannot_be_are_named() -> None:
    async with testing.run(Doubler) as app:
        with pytest.raises(CodecError, match='input "x"'):
            await app.infer("Doubler", x=[[1], [2, 3]])
        with pytest.raises(TypeError, match="no input x"):
            await app.infer("Doubler", InferenceRequest(inputs=[]), x=[1])
