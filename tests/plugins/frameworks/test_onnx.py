"""ONNX models, made by the library of the format."""

import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from inferstream.errors import InvalidRequest, InvalidSettings, ModelLoadFailed
from inferstream.ext.runtimes import UntrustedOrigin
from inferstream.plugins.frameworks.onnx import OnnxModel
from inferstream.types import RequestInput
from tests.artefacts import graphs, models
from tests.artefacts.tensor_models import asked, loaded, tensor

FLOWERS = models.FLOWERS.astype(np.float32)


async def test_signature_matches_graph_with_dynamic_axes(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path).parent)
    metadata = await model.metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [
        ("flowers", "FP32", [-1, 4])
    ]
    assert [(each.name, each.datatype, each.shape) for each in metadata.outputs] == [
        ("species", "INT64", [-1]),
        ("probabilities", "FP32", [-1, 3]),
    ]


async def test_settings_can_declare_fewer_outputs_with_more_detail(tmp_path) -> None:
    declared = [{"name": "flowers", "datatype": "FP32", "shape": [-1, 4], "parameters": {"unit": "cm"}}]
    model = await loaded(OnnxModel, graphs.classifier(tmp_path), {"inputs": declared})
    metadata = await model.metadata()
    assert metadata.inputs[0].parameters.unit == "cm"
    assert len(metadata.outputs) == 2


async def test_outputs_are_all_or_requested_ones_in_order(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    given = tensor("flowers", "FP32", FLOWERS)
    everything = asked(model, given)
    assert [*everything] == ["species", "probabilities"]
    datatype, species = everything["species"]
    assert (datatype, species.shape) == ("INT64", (150,))
    assert (species == models.classifier().predict(models.FLOWERS)).all()
    probabilities = models.classifier().predict_proba(models.FLOWERS)
    assert np.allclose(everything["probabilities"][1], probabilities, atol=1e-4)
    assert [*asked(model, given, outputs=("probabilities", "species"))] == ["probabilities", "species"]
    with pytest.raises(
        InvalidRequest, match=r'output "x" is not one of the model\'s outputs: species, probabilities'
    ):
        asked(model, given, outputs=("x",))


async def test_raw_tensors_reach_session_without_copy(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    seen: dict[str, Any] = {}
    session = model._artefact

    class Seeing:
        def run(self, outputs: Any, arrays: dict[str, Any]) -> Any:
            seen.update(arrays)
            return session.run(outputs, arrays)

    model._artefact = Seeing()
    asked(model, RequestInput(name="flowers", datatype="FP32", shape=[150, 4], data=FLOWERS))
    assert np.shares_memory(seen["flowers"], FLOWERS)


async def test_string_tensors(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.joined(tmp_path))
    first, second = tensor("first", "BYTES", ["ä", "b"]), tensor("second", "BYTES", ["c"])
    assert asked(model, first, second) == {"all": ("BYTES", ["ä", "b", "c"])}
    raw = RequestInput(name="first", datatype="BYTES", shape=[1], data=["ä".encode()])
    assert asked(model, raw, second) == {"all": ("BYTES", ["ä", "c"])}
    missing = RequestInput(name="first", datatype="BYTES", shape=[2], data=["a", None])
    with pytest.raises(InvalidRequest, match='input "first": element 1 is null, not a text'):
        asked(model, missing, second)


async def test_values_refused_by_operator_are_client_errors(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.picked(tmp_path))
    table = tensor("table", "FP32", [[1, 2], [3, 4]])
    assert asked(model, table, tensor("rows", "INT64", [1]))["picked"][1].tolist() == [[3, 4]]
    with pytest.raises(InvalidRequest, match=r'inputs "table", "rows": .*indices element out of data bounds'):
        asked(model, table, tensor("rows", "INT64", [9]))


@pytest.mark.parametrize(
    ("extra", "threads", "runs", "spinning"),
    [
        ({}, 1, 4, "0"),
        ({"n_jobs": 2}, 2, 2, "0"),
        ({"n_jobs": 8, "session_config": {"session.intra_op.allow_spinning": "1"}}, 8, 1, "1"),
    ],
)
async def test_sessions_share_the_processors(
    tmp_path, monkeypatch, extra: dict[str, Any], threads: int, runs: int, spinning: str
) -> None:
    monkeypatch.setattr(OnnxModel, "_processors", lambda self: 4)
    model = await loaded(OnnxModel, graphs.classifier(tmp_path), **extra)
    options = model._artefact.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (threads, 1)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == spinning
    assert model.settings.threads == runs


async def test_providers_follow_settings(tmp_path) -> None:
    path = graphs.classifier(tmp_path)
    with_options = ["CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"}]
    for providers in ([], ["CPUExecutionProvider"], [with_options]):
        model = await loaded(OnnxModel, path, providers=providers)
        assert model._artefact.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(ModelLoadFailed, match=r"MyProvider is not in this ONNX Runtime, which has .*CPUExec"):
        await loaded(OnnxModel, path, providers=["MyProvider"])


async def test_failing_provider_fails_load(tmp_path, monkeypatch) -> None:
    """ONNX Runtime itself goes on with the CPU."""
    known = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        assert (await loaded(OnnxModel, graphs.classifier(tmp_path))).ready is False
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(ModelLoadFailed, match="CUDAExecutionProvider did not start"),
    ):
        await loaded(OnnxModel, graphs.classifier(tmp_path), providers=["CUDAExecutionProvider"])


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"provider": []}, "provider"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"graph_optimization": "x"}, "graph_optimi"),
    ],
)
async def test_invalid_settings_are_named(tmp_path, extra: dict[str, Any], name: str) -> None:
    with pytest.raises(ModelLoadFailed, match=f'"{name}.*" in parameters.extra'):
        await loaded(OnnxModel, graphs.classifier(tmp_path), **extra)


@pytest.mark.parametrize("level", ["none", "basic", "extended", "layout", "all"])
async def test_optimization_level_follows_settings(tmp_path, level: str) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path), graph_optimization=level)
    found = model._artefact.get_session_options().graph_optimization_level
    assert found.name == ("ORT_DISABLE_ALL" if level == "none" else f"ORT_ENABLE_{level.upper()}")


async def test_options_of_fetched_settings_need_trust(tmp_path) -> None:
    (tmp_path / "fetched").mkdir()
    path = graphs.classifier(tmp_path / "fetched")
    UntrustedOrigin("https://example.org/model.tar").mark(tmp_path)
    await loaded(OnnxModel, path)
    await loaded(OnnxModel, path, providers=["CPUExecutionProvider"])
    for extra in ({"providers": [["CPUExecutionProvider", {}]]}, {"session_config": {"a": "b"}}):
        with pytest.raises(InvalidSettings, match=r"of https://example\.org/model\.tar would run code"):
            await loaded(OnnxModel, path, **extra)


async def test_wrong_file_error_hides_folder(tmp_path) -> None:
    (tmp_path / "model.onnx").write_text("hello")
    with pytest.raises(ModelLoadFailed, match=r"ONNX Runtime \S+ cannot read model\.onnx") as failed:
        await loaded(OnnxModel, tmp_path)
    assert str(tmp_path) not in failed.value.message


async def test_non_tensor_outputs_are_dropped_and_logged(tmp_path, caplog) -> None:
    path = graphs.saved(
        [
            helper.make_node("SequenceConstruct", ["x"], ["several"]),
            helper.make_node("Identity", ["x"], ["y"]),
        ],
        [graphs.tensor("x", graphs.FLOAT, [1])],
        [
            helper.make_tensor_sequence_value_info("several", graphs.FLOAT, [1]),
            graphs.tensor("y", graphs.FLOAT, [1]),
        ],
        tmp_path / "model.onnx",
    )
    model = await loaded(OnnxModel, path)
    assert [*asked(model, tensor("x", "FP32", [1]))] == ["y"]
    assert 'output "several" is not served: seq(tensor(float)) is not a tensor' in caplog.text


async def test_unsupported_datatype_fails_load(tmp_path) -> None:
    with pytest.raises(ModelLoadFailed, match=r'input "x" is a tensor\(bfloat16\)'):
        await loaded(OnnxModel, graphs.unchanged(tmp_path, TensorProto.BFLOAT16))


async def test_missing_package_error_has_install_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        ModelLoadFailed, match=r'needs onnxruntime, which is not installed; hint: pip install "onnxruntime>='
    ):
        await loaded(OnnxModel, graphs.classifier(tmp_path))
