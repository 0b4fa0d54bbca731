"""PyTorch models in each form, written by torch itself."""

import asyncio
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from inferstream.errors import InvalidRequest, InvalidSettings, ModelLoadFailed
from inferstream.ext.runtimes import UntrustedOrigin
from inferstream.plugins.frameworks.torch import TorchModel
from inferstream.types import RequestInput
from tests.artefacts import models, modules
from tests.artefacts.tensor_models import asked, loaded, tensor

FLOWERS = models.FLOWERS.astype(np.float32)
ONES = tensor("scale", "FP32", np.ones((150, 1)))
DECLARED = [
    {"name": "flowers", "datatype": "FP32", "shape": [-1, 4]},
    {"name": "scale", "datatype": "FP32", "shape": [-1, 1]},
]
NAMED = [
    {"name": "species", "datatype": "INT64", "shape": [-1]},
    {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]},
]
CLASS = "tests.artefacts.modules.Classifier"


def flowers(rows: int = 150) -> RequestInput:
    return RequestInput(name="flowers", datatype="FP32", shape=[rows, 4], data=FLOWERS[:rows])


def is_right(answer: dict[str, Any], names: list[str]) -> bool:
    species, probabilities = (answer[name][1] for name in names)
    return (
        [*answer] == names
        and (species == models.classifier().predict(models.FLOWERS)).all()
        and np.allclose(probabilities, models.classifier().predict_proba(models.FLOWERS), atol=1e-4)
    )


async def test_program_signature_is_model_signature(tmp_path) -> None:
    model = await loaded(TorchModel, modules.exported(tmp_path).parent)
    metadata = await model.metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [
        ("flowers", "FP32", [-1, 4]),
        ("scale", "FP32", [-1, 1]),
    ]
    names = [each.name for each in metadata.outputs]
    assert [(each.datatype, each.shape) for each in metadata.outputs] == [
        ("INT64", [-1]),
        ("FP32", [-1, 3]),
    ]
    assert is_right(asked(model, ONES, flowers()), names)
    assert [*asked(model, ONES, flowers(), outputs=(names[1],))] == names[1:]
    with pytest.raises(
        InvalidRequest, match='output "x" is not one of the model\'s outputs: argmax, softmax'
    ):
        asked(model, ONES, flowers(), outputs=("x",))


async def test_declared_outputs_keep_their_names(tmp_path) -> None:
    model = await loaded(TorchModel, modules.exported(tmp_path), {"outputs": NAMED})
    assert is_right(asked(model, flowers(), ONES), ["species", "probabilities"])
    model = await loaded(TorchModel, modules.exported(tmp_path), {"outputs": NAMED[:1]})
    with pytest.raises(TypeError, match="returns 2 tensors, and its outputs are species"):
        asked(model, flowers(), ONES)


async def test_mapping_names_outputs_and_inputs_can_be_keywords(tmp_path) -> None:
    model = await loaded(TorchModel, modules.exported_mapping(tmp_path))
    answer = asked(model, tensor("x", "FP32", [[1, 2, 3, 4]]))
    assert {name: values.tolist() for name, (_, values) in answer.items()} == {
        "doubled": [[2, 4, 6, 8]],
        "total": [10],
    }


async def test_torchscript_datatypes_come_only_from_settings(tmp_path) -> None:
    path = modules.scripted(tmp_path)
    model = await loaded(TorchModel, path.parent)
    metadata = await model.metadata()
    assert (metadata.inputs, metadata.outputs) == ([], [])
    assert is_right(asked(model, flowers(), ONES), ["output-0", "output-1"])
    with pytest.raises(
        InvalidRequest, match=r'inputs "flowers", "scale": .*mat1 and mat2 shapes cannot'
    ) as wrong:
        asked(model, tensor("flowers", "FP32", [[1, 2]]), tensor("scale", "FP32", [[1]]))
    assert "forward" not in wrong.value.message
    model = await loaded(TorchModel, path, {"inputs": DECLARED, "outputs": NAMED})
    assert is_right(asked(model, flowers(), ONES), ["species", "probabilities"])
    with pytest.raises(
        InvalidRequest, match=r'input "flowers": the model takes shape \[-1, 4\], got \[1, 2\]'
    ):
        asked(model, tensor("flowers", "FP32", [[1, 2]]), tensor("scale", "FP32", [[1]]))


async def test_safetensors_weights_load_into_class(tmp_path) -> None:
    path = modules.weights(tmp_path)
    model = await loaded(TorchModel, path.parent, **{"class": CLASS})
    assert is_right(asked(model, flowers(), ONES), ["output-0", "output-1"])
    with pytest.raises(ModelLoadFailed, match='weights in safetensors need the "class"'):
        await loaded(TorchModel, path)
    for arguments in ({"species": 5}, {"unknown": 1}):
        with pytest.raises(
            ModelLoadFailed, match=r"cannot read model\.safetensors; the server's log says why"
        ):
            await loaded(TorchModel, path, **{"class": CLASS, "arguments": arguments})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (tensor("flowers", "FP64", [[1.0] * 4]), 'input "flowers": the model takes FP32, got FP64'),
        (tensor("flowers", "FP32", [[1.0] * 3]), r"the model takes shape \[-1, 4\], got \[1, 3\]"),
        (
            tensor("flowers", "FP32", [[1.0] * 4] * 2),
            'input "scale": its dimension .* is 1, and that of input',
        ),
        (tensor("flowers", "FP32", np.ones((1001, 4))), "its dimension"),
    ],
)
async def test_invalid_values_are_named(tmp_path, given: RequestInput, message: str) -> None:
    model = await loaded(TorchModel, modules.exported(tmp_path))
    with pytest.raises(InvalidRequest, match=message):
        asked(model, given, tensor("scale", "FP32", [[1]]))


async def test_program_constraint_violation_is_client_error(tmp_path) -> None:
    model = await loaded(TorchModel, modules.exported(tmp_path))
    many = tensor("flowers", "FP32", np.ones((1001, 4))), tensor("scale", "FP32", np.ones((1001, 1)))
    with pytest.raises(InvalidRequest, match=r'inputs "flowers", "scale": .*1000'):
        asked(model, *many)


async def test_bfloat16_is_converted_to_float32(tmp_path) -> None:
    model = await loaded(TorchModel, modules.exported(tmp_path, dtype=torch.bfloat16))
    assert [each.datatype for each in model.inputs] == ["BF16", "BF16"]
    assert [each.datatype for each in model.outputs] == ["INT64", "FP32"]
    given = [
        RequestInput(name=name, datatype="BF16", shape=[1, size], data=[1.0] * size)
        for name, size in (("flowers", 4), ("scale", 1))
    ]
    datatype, values = asked(model, *given)["softmax"]
    assert (datatype, values.dtype, round(float(values.sum()))) == ("FP32", np.float32, 1)


async def test_inference_needs_no_gradients_and_keeps_request(tmp_path) -> None:
    class Changing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

    model = await loaded(TorchModel, modules.scripted(tmp_path, Changing()))
    values = np.zeros((1, 2), np.float32)
    values.flags.writeable = False
    given = RequestInput(name="x", datatype="FP32", shape=[1, 2], data=values)
    assert asked(model, given)["output"][1].tolist() == [[1, 1]]
    assert values.tolist() == [[0, 0]]
    modes: list[bool] = []
    program = model._artefact
    model._artefact = program._replace(
        call=lambda tensors: modes.append(torch.is_inference_mode_enabled()) or program.call(tensors)
    )
    asked(model, given)
    assert modes == [True]


@pytest.mark.parametrize(("settings", "threads"), [({}, 1), ({"threads": 3}, 3), ({"max_concurrency": 2}, 2)])
async def test_inference_uses_all_cores(tmp_path, settings: dict[str, int], threads: int) -> None:
    assert (await loaded(TorchModel, modules.exported(tmp_path), settings)).settings.threads == threads


async def test_device_follows_settings(tmp_path) -> None:
    for path in (modules.exported(tmp_path), modules.scripted(tmp_path)):
        model = await loaded(TorchModel, path, device="cpu")
        assert is_right(asked(model, flowers(), ONES), [*asked(model, flowers(), ONES)])
        with pytest.raises(ModelLoadFailed, match="cannot read model"):
            await loaded(TorchModel, path, device="nonsense")


async def test_fetched_code_needs_trust(tmp_path) -> None:
    folder = tmp_path / "fetched"
    folder.mkdir()
    UntrustedOrigin("https://example.org/model.tar").mark(tmp_path)
    for path, extra in (
        (modules.exported(folder), {}),
        (modules.scripted(folder), {}),
        (modules.weights(folder), {"class": CLASS}),
    ):
        with pytest.raises(InvalidSettings, match=r"of https://example\.org/model\.tar would run code"):
            await loaded(TorchModel, path, **extra)


async def test_wrong_files_and_settings_are_named(tmp_path) -> None:
    (tmp_path / "model.pt").write_text("hello")
    (tmp_path / "model.pt2").write_text("hello")
    for name in ("model.pt", "model.pt2"):
        with pytest.raises(ModelLoadFailed, match=rf"PyTorch \S+ cannot read {name}") as failed:
            await loaded(TorchModel, tmp_path / name)
        assert str(tmp_path) not in failed.value.message
    with pytest.raises(ModelLoadFailed, match=r'"devices" in parameters\.extra'):
        await loaded(TorchModel, modules.exported(tmp_path), devices="cpu")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("whole", [True, False])
async def test_torch_save_files_are_recognised(tmp_path, whole: bool, zipped: bool) -> None:
    module = torch.nn.Linear(2, 2)
    saved = module if whole else module.state_dict()
    torch.save(saved, tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ModelLoadFailed, match=r"model\.pt was written by torch\.save .* torch\.jit\.save"):
        await loaded(TorchModel, tmp_path / "model.pt")


@pytest.mark.parametrize("datatype", ["FP64", "INT64"])
async def test_undeclared_datatype_error_names_what_to_declare(tmp_path, datatype: str) -> None:
    model = await loaded(TorchModel, modules.scripted(tmp_path))
    with pytest.raises(InvalidRequest, match='declare "inputs" in the model\'s settings'):
        asked(model, tensor("flowers", datatype, [[1, 2, 3, 4]]), tensor("scale", datatype, [[1]]))


async def test_models_load_concurrently(tmp_path) -> None:
    path = modules.exported(tmp_path)
    for model in await asyncio.gather(*(loaded(TorchModel, path) for _ in range(3))):
        assert len(asked(model, flowers(), ONES)) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("form", ["weights", "scripted"])
async def test_weights_and_inputs_have_configured_dtype(tmp_path, dtype: str, form: str) -> None:
    extra = {"class": CLASS} if form == "weights" else {}
    model = await loaded(
        TorchModel, getattr(modules, form)(tmp_path), {"inputs": DECLARED}, dtype=dtype, **extra
    )
    answer = asked(model, flowers(), ONES)
    datatypes = {name: values.dtype for name, (_, values) in answer.items()}
    assert datatypes == {"output-0": np.int64, "output-1": np.float32}
    close = np.isclose(answer["output-1"][1], models.classifier().predict_proba(models.FLOWERS), atol=0.05)
    assert close.all()
    exact = (answer["output-1"][1] == answer["output-1"][1].astype(np.float16)).all()
    assert exact == (dtype == "float16")


async def test_int8_linear_layers(tmp_path) -> None:
    extra = {"class": CLASS, "quantize": "int8"}
    model = await loaded(TorchModel, modules.weights(tmp_path), {"inputs": DECLARED}, **extra)
    assert np.allclose(
        asked(model, flowers(), ONES)["output-1"][1],
        models.classifier().predict_proba(models.FLOWERS),
        atol=0.05,
    )


@pytest.mark.parametrize(
    ("form", "name"), [("exported", "dtype"), ("exported", "quantize"), ("scripted", "quantize")]
)
async def test_traced_program_keeps_its_types(tmp_path, form: str, name: str) -> None:
    value = {"dtype": "float16", "quantize": "int8"}[name]
    path = getattr(modules, form)(tmp_path)
    with pytest.raises(
        ModelLoadFailed, match=f'"{name}" in parameters.extra cannot change {path.name}, which is'
    ):
        await loaded(TorchModel, path, **{name: value})
