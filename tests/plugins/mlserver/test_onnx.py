"""The ONNX runtime under its MLServer name: outputs, settings, variables and trust."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, InvalidSettings, ModelLoadFailed
from inferstream.ext.hosting import install_aliases
from inferstream.ext.runtimes import UntrustedOrigin
from inferstream.plugins.mlserver.onnx import HARMLESS_OPTIONS
from inferstream.plugins.mlserver.onnx import MLServerOnnxModel as OnnxModel
from inferstream.types import InferenceRequest, Parameters, RequestOutput
from tests.artefacts import graphs, models
from tests.artefacts.tensor_models import asked, loaded, tensor

FLOWERS = tensor("flowers", "FP32", models.FLOWERS.astype(np.float32))
CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


def request(*names: str) -> InferenceRequest:
    return InferenceRequest(inputs=[FLOWERS], outputs=[RequestOutput(name=name) for name in names])


async def test_first_output_is_predict_and_others_are_on_request(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    species = models.classifier().predict(models.FLOWERS)
    for wanted in ((), ("predict",)):
        [output] = model.predict(request(*wanted)).outputs
        assert (output.name, output.shape, output.datatype) == ("predict", [150, 1], "INT64")
        assert output.parameters.content_type == "np"
        assert output.data.to_numpy("INT64").ravel().tolist() == species.tolist()
    found = asked(model, FLOWERS, outputs=("probabilities", "predict", "species"))
    assert [*found] == ["probabilities", "predict", "species"]
    assert found["probabilities"][1].shape == (150, 3)
    assert (found["predict"][1] == found["species"][1]).all()
    with pytest.raises(InvalidRequest, match=r'"x" is not one of .*: predict, species, probabilities'):
        model.predict(request("x"))


async def test_strings_and_requested_content_types(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.joined(tmp_path))
    inputs = [tensor("first", "BYTES", ["a"]), tensor("second", "BYTES", ["b"])]
    wanted = [
        RequestOutput(name="predict"),
        RequestOutput(name="all", parameters=Parameters(content_type="str")),
    ]
    outputs = model.predict(InferenceRequest(inputs=inputs, outputs=wanted)).outputs
    assert [output.parameters.content_type for output in outputs] == ["np", "str"]
    assert [output.shape for output in outputs] == [[2, 1], [2, 1]]


async def test_inputs_that_the_graph_does_not_have_are_ignored(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    assert [*asked(model, tensor("other", "FP32", [1]), FLOWERS)] == ["predict"]
    with pytest.raises(InvalidRequest, match='input "flowers" is missing'):
        asked(model, tensor("other", "FP32", [1]), tensor("another", "FP32", [1]))


async def test_options_follow_extra(tmp_path) -> None:
    model = await loaded(
        OnnxModel,
        graphs.classifier(tmp_path),
        session_options={"intra_op_num_threads": 2, "enable_mem_pattern": 0, "graph_optimization_level": 99},
        session_config_entries={"session.set_denormal_as_zero": 1},
        run_options={"log_severity_level": 3},
        something_else=True,
    )
    options = model._artefact.get_session_options()
    assert options.intra_op_num_threads == 2
    assert options.enable_mem_pattern is False
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert [*asked(model, FLOWERS)] == ["predict"]


@pytest.mark.parametrize("several", [False, True])
async def test_provider_options_belong_to_the_provider_at_their_position(
    tmp_path, monkeypatch, several: bool
) -> None:
    seen: list[Any] = []
    start = onnxruntime.InferenceSession

    def started(path: Path, options: Any, providers: list[Any]) -> Any:
        seen.extend(providers)
        return start(path, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", started)
    options: dict[str, Any] = {"arena_extend_strategy": "kSameAsRequested"}
    extra = {"providers": [CPU], "provider_options": options}
    if several:
        extra = {"providers": [CUDA, CPU], "provider_options": [{"device_id": "0"}, options]}
    await loaded(OnnxModel, graphs.classifier(tmp_path), **extra)
    assert seen == [(CPU, options)]


async def test_run_options_reach_every_run(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path), run_options={"terminate": True})
    with pytest.raises(Exception, match="terminate"):
        model.predict(request())


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"session_options": {"threads": 1}}, '"threads" in session_options is not an option'),
        (
            {"session_options": {"add_initializer": 1}},
            '"add_initializer" in session_options is not an option',
        ),
        (
            {"session_options": {"intra_op_num_threads": "a"}},
            "\"intra_op_num_threads\" in session_options .* 'a'",
        ),
        ({"run_options": {"logid": []}}, '"logid" in run_options cannot be'),
        ({"session_options": "a"}, '"session_options" in parameters.extra'),
        ({"providers": "a"}, '"providers" in parameters.extra'),
        (
            {"providers": [CPU], "provider_options": [{}, {}]},
            "provider_options has 2 items, and providers has 1",
        ),
    ],
)
async def test_wrong_options_are_named(tmp_path, extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelLoadFailed, match=message):
        await loaded(OnnxModel, graphs.classifier(tmp_path), **extra)


async def test_variables_are_used_for_missing_settings(tmp_path, monkeypatch, caplog) -> None:
    path = graphs.classifier(tmp_path)
    monkeypatch.setenv("MLSERVER_MODEL_ONNX_PROVIDERS", json.dumps([CUDA, CPU]))
    monkeypatch.setenv("MLSERVER_MODEL_ONNX_SESSION_OPTIONS", '{"intra_op_num_threads": 3}')
    model = await loaded(OnnxModel, path)
    assert model._artefact.get_session_options().intra_op_num_threads == 3
    assert model._artefact.get_providers() == [CPU]
    assert f"model m: the provider {CUDA} is not in this ONNX Runtime, which has" in caplog.text
    caplog.clear()
    await loaded(OnnxModel, path, providers=[CPU])
    assert not caplog.records


async def test_provider_that_does_not_start_is_logged(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    with pytest.warns(UserWarning, match=CUDA):
        await loaded(OnnxModel, graphs.classifier(tmp_path), providers=[CUDA, CPU], provider_options=[{}, {}])
    assert f"model m: the provider {CUDA} did not start" in caplog.text


async def test_load_fails_if_no_provider_is_there(tmp_path) -> None:
    with pytest.raises(ModelLoadFailed, match=f"the provider MyProvider is not in .* which has .*{CPU}"):
        await loaded(OnnxModel, graphs.classifier(tmp_path), providers=["MyProvider", "Other"])


def fetched(folder: Path, extra: dict[str, Any]) -> OnnxModel:
    """A model whose files and settings are from an untrusted repository."""
    path = graphs.classifier(folder)
    UntrustedOrigin("hf://a/b").mark(folder.parent)
    settings = folder / "model-settings.json"
    parameters = {"uri": str(path), "extra": extra}
    settings.write_text(
        json.dumps({"name": "m", "implementation": "mlserver_onnx.OnnxModel", "parameters": parameters})
    )
    return OnnxModel(ModelSettings.parse_file(settings))


@pytest.mark.parametrize(
    "extra",
    [
        {"session_options": {"optimized_model_filepath": "/tmp/x"}},
        {"session_options": {"enable_mem_pattern": False, "enable_profiling": True}},
        {"session_options": {"intra_op_num_threads": 1000}},
        {"session_config_entries": {"a": "b"}},
        {"provider_options": [{"backend_path": "x.so"}], "providers": [CPU]},
        {"run_options": {"log_severity_level": 0}},
        {"providers": [CPU]},
    ],
)
async def test_fetched_settings_cannot_set_options_of_files_and_libraries(
    tmp_path, extra: dict[str, Any]
) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(InvalidSettings, match="of hf://a/b would run code from there"):
        await fetched(tmp_path / "model", extra).load()


async def test_fetched_settings_can_set_harmless_options(tmp_path) -> None:
    (tmp_path / "model").mkdir()
    values = {name: int(name.endswith("level")) for name in HARMLESS_OPTIONS}
    assert await fetched(tmp_path / "model", {"session_options": values}).load()


async def test_class_for_model_code_is_async_and_raises_mlserver_errors(tmp_path) -> None:
    install_aliases()
    from mlserver.errors import InferenceError
    from mlserver_onnx import OnnxModel as Base
    from mlserver_onnx.onnx import PREDICT_OUTPUT, VALID_OUTPUTS, WELLKNOWN_MODEL_FILENAMES

    class Own(Base):  # type: ignore[misc, valid-type]
        async def predict(self, payload: InferenceRequest) -> Any:
            return await super().predict(payload)

    model = await loaded(Own, graphs.classifier(tmp_path))
    [output] = (await model.predict(request())).outputs
    assert [output.name] == [PREDICT_OUTPUT] == VALID_OUTPUTS
    assert WELLKNOWN_MODEL_FILENAMES == ["model.onnx"]
    assert [each.name for each in model._model.get_outputs()][:1] == [*model._returns][:1]
    with pytest.raises(InferenceError, match='"x" is not one of'):
        await model.predict(request("x"))
