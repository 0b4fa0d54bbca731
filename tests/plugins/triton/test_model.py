"""Models of Triton's Python backend, loaded by themselves."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferstream import ModelSettings, RequestContext
from inferstream.errors import InvalidOutput, InvalidSettings, ModelError, ModelLoadFailed
from inferstream.ext.runtimes import FolderRepository
from inferstream.testing import run
from inferstream.types import InferenceRequest, RequestInput
from tests.plugins.triton import folders

HEAD = "import numpy as np\nimport triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n"
CONFIG = 'backend: "python" output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]'


@pytest.fixture(autouse=True)
def no_module_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "model", raising=False)


async def settings_in(folder: Path) -> ModelSettings:
    """The settings of the model in one folder of a repository."""
    listed = await FolderRepository(folder.parent).list()
    [settings] = (each for each in listed if each.source == str(folder / "config.pbtxt"))
    return settings


async def made(folder: Path) -> Any:
    settings = await settings_in(folder)
    model = settings.implementation(settings)
    assert model.load()
    return model


async def of(tmp_path: Path, body: str, config: str = CONFIG) -> Any:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(HEAD + body)
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    return await made(tmp_path / "m")


def asking(**values: list[int]) -> InferenceRequest:
    inputs = [
        RequestInput(name=name, datatype="INT32", shape=[len(each)], data=each)
        for name, each in values.items()
    ]
    return InferenceRequest(inputs=inputs)


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> RequestContext:
    made = RequestContext()
    monkeypatch.setattr("inferstream.plugins.triton.model.request_context", lambda: made)
    return made


async def test_code_receives_configuration_and_responds(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "add_sub"))
    values = [1.0, 2.0, 3.0, 4.0]
    inputs = [
        RequestInput(name=f"INPUT{number}", datatype="FP32", shape=[4], data=values) for number in range(2)
    ]
    response = model.predict(InferenceRequest(inputs=inputs))
    assert [each.data.flat() for each in response.outputs] == [[2.0, 4.0, 6.0, 8.0], [0.0] * 4]
    assert model.unload()


async def test_initialize_arguments(tmp_path: Path) -> None:
    body = "  def initialize(self, args):\n    self.args = args\n  def execute(self, requests): return []\n"
    model = await of(tmp_path, body)
    args = model._code.args
    assert {name: args[name] for name in args if name != "model_config"} == {
        "model_instance_name": "m_0",
        "model_instance_kind": "CPU",
        "model_instance_device_id": "0",
        "model_repository": str(tmp_path / "m"),
        "model_version": "1",
        "model_name": "m",
    }
    (output,) = json.loads(args["model_config"])["output"]
    assert output.items() >= {"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]}.items()


async def test_threads_send_many_responses(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "repeat"))
    responses = model.predict_stream(iter([asking(IN=[5, 6], DELAY=[])]))
    assert [each.outputs[1].data.flat() for each in responses] == [[5], [6]]
    model.unload()


async def test_code_completes_configuration(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "square"))
    metadata = await model.metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [("IN", "INT32", [1])]
    assert [len(each.outputs) for each in model.predict_stream(iter([asking(IN=[3])]))] == [1, 1, 1]
    with pytest.raises(ModelError, match="a negative number") as refused:
        next(model.predict_stream(iter([asking(IN=[-1])])))
    assert refused.value.status_code == 400


async def test_completed_configuration_becomes_settings(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "same"))
    config = model.settings.configuration
    assert (config["max_batch_size"], config["dynamic_batching"]) == (4, {})
    assert [each.shape for each in (*model.inputs, *model.outputs)] == [[-1, 2], [-1, 2]]


async def test_each_load_completes_the_original_configuration(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "same"))
    assert model.settings.written_configuration.get("max_batch_size", 0) == 0
    model.settings.configuration = {**model.settings.configuration, "max_batch_size": 9}
    again = type(model)(model.settings)
    assert again.load()
    assert again.settings.configuration["max_batch_size"] == 4


async def test_abandoned_stream_ends(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "square"))
    responses = model.predict_stream(iter([asking(IN=[1_000_000])]))
    assert np.asarray(next(responses).outputs[0].data.flat()) == [1_000_000]
    responses.close()


async def test_disconnected_client_is_not_awaited(tmp_path: Path, context: RequestContext) -> None:
    body = "  def execute(self, requests):\n    self.kept = requests[0].get_response_sender()\n"
    model = await of(tmp_path, body)
    context.cancelled = True
    with pytest.raises(InvalidOutput, match="0 responses"):
        model.predict(asking(IN=[1]))


async def test_single_response_can_use_sender(tmp_path: Path) -> None:
    body = """
  def execute(self, requests):
    out = pb_utils.Tensor("OUT", np.array([1], np.int32))
    requests[0].get_response_sender().send(pb_utils.InferenceResponse([out]), 1)
"""
    response = (await of(tmp_path, body)).predict(asking(IN=[1]))
    assert response.outputs[0].name == "OUT"


async def test_execute_can_be_async(tmp_path: Path) -> None:
    body = """
  async def execute(self, requests):
    import asyncio
    await asyncio.sleep(0)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([7], np.int32))])]
"""
    model = await of(tmp_path, body)
    response = await asyncio.to_thread(model.predict, asking(IN=[1]))
    assert response.outputs[0].data.flat() == [7]


@pytest.mark.parametrize(
    ("returned", "kind", "said"),
    [
        ("[]", InvalidOutput, "a list of 0 for 1 request"),
        ("5", InvalidOutput, "a int for 1 request"),
        ("['a']", InvalidOutput, "a str, no InferenceResponse"),
        ("None", InvalidOutput, "0 responses"),
        ("[pb_utils.InferenceResponse(error=pb_utils.TritonError('full', 4))]", ModelError, "full"),
    ],
)
async def test_invalid_result_is_an_error(
    tmp_path: Path, returned: str, kind: type[Exception], said: str
) -> None:
    model = await of(tmp_path, f"  def execute(self, requests): return {returned}\n")
    with pytest.raises(kind, match=said):
        model.predict(asking(IN=[1]))


async def test_exception_message_reaches_client(tmp_path: Path) -> None:
    model = await of(
        tmp_path, "  def execute(self, requests): raise pb_utils.TritonModelException('no luck')\n"
    )
    with pytest.raises(ModelError, match="no luck"):
        model.predict(asking(IN=[1]))


async def test_load_failure_has_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="has no method execute"):
        await of(tmp_path / "a", "  pass\n")
    with pytest.raises(InvalidSettings, match="auto_complete_config: an input has no"):
        await of(
            tmp_path / "b",
            "  @staticmethod\n  def auto_complete_config(c): c.add_input({'x': 1})\n  def execute(self, r): pass\n",
        )
    with pytest.raises(InvalidSettings, match="auto_complete_config: Object of type set"):
        await of(
            tmp_path / "d",
            "  @staticmethod\n  def auto_complete_config(c):\n"
            "    c.add_input({'name': 'x', 'data_type': 'TYPE_INT32', 'dims': {1}})\n    return c\n"
            "  def execute(self, r): pass\n",
        )
    folder = tmp_path / "c" / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("x = 1")
    (folder.parent / "config.pbtxt").write_text(CONFIG)
    with pytest.raises(ModelLoadFailed, match="has no class TritonPythonModel"):
        await made(folder.parent)


MAX_BATCH_SIZES = ["", "max_batch_size: 0 ", "max_batch_size: 8 "]

PATHS = (
    *("name", "backend", "platform", "max_batch_size", "input.0.optional", "input.0.format", "input.0.dims"),
    *(
        "output.0.label_filename",
        "output.0.dims",
        "parameters",
        "default_model_filename",
        "cc_model_filenames",
    ),
    *("instance_group.0.name", "instance_group.0.count", "instance_group.0.kind", "instance_group.0.gpus"),
    *("version_policy.latest.num_versions", "model_warmup", "optimization.priority", "metric_tags"),
)


def at(config: Any, path: str) -> Any:
    for part in path.split("."):
        config = config[int(part) if part.isdigit() else part]
    return config


@pytest.mark.parametrize("size", MAX_BATCH_SIZES)
@pytest.mark.parametrize(
    "groups", ["", "instance_group [{ }]", "instance_group [{ count: 2 kind: KIND_CPU }]"]
)
async def test_code_receives_complete_configuration(tmp_path: Path, size: str, groups: str) -> None:
    body = (
        "  @staticmethod\n  def auto_complete_config(config):\n"
        "    TritonPythonModel.first = config.as_dict()\n    return config\n"
        "  def initialize(self, args): self.args = args\n  def execute(self, requests): return []\n"
    )
    config = f'{size}backend: "python" {groups} input [{{ name: "X" data_type: TYPE_FP32 dims: [2] }}] '
    model = await of(tmp_path, body, config + CONFIG.removeprefix('backend: "python" '))
    for seen in (model._code.first, json.loads(model._code.args["model_config"])):
        for path in PATHS:
            at(seen, path)
        assert seen["max_batch_size"] == (8 if "8" in size else 0)
        assert seen["instance_group"][0]["name"] == "m_0"
        assert seen["instance_group"][0]["count"] == (2 if "count" in groups else 1)
    assert json.loads(model._code.args["model_config"])["model_transaction_policy"] == {"decoupled": False}


async def test_configuration_without_tensors_has_empty_lists(tmp_path: Path) -> None:
    body = (
        "  def auto_complete_config(config):\n"
        "    there = config.as_dict()\n    assert there['input'] == there['output'] == []\n"
        "    config.add_input({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [-1]})\n"
        "    config.set_max_batch_size(there['max_batch_size'])\n    return config\n"
        "  def execute(self, requests): return []\n"
    )
    model = await of(tmp_path, body, 'backend: "python"')
    assert [each.name for each in model.inputs] == ["X"]


async def test_code_completes_partially_declared_tensor(tmp_path: Path) -> None:
    body = (
        "  def auto_complete_config(config):\n"
        "    config.add_input({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [-1], 'optional': True})\n"
        "    return config\n  def execute(self, requests): return []\n"
    )
    model = await of(tmp_path, body, 'backend: "python" input [{ name: "X" }]')
    assert [(each.name, each.datatype, each.shape) for each in model.inputs] == [("X", "FP32", [-1])]


async def test_missing_return_of_completion_is_named(tmp_path: Path) -> None:
    body = "  def auto_complete_config(config): pass\n  def execute(self, requests): return []\n"
    with pytest.raises((InvalidSettings, ModelLoadFailed), match="returned a NoneType"):
        await of(tmp_path, body)


DECOUPLES = {
    "literal": "config.set_model_transaction_policy({'decoupled': True})",
    "dict": "config.set_model_transaction_policy(dict(decoupled=True))",
    "variable": "policy = {'decoupled': True}; config.set_model_transaction_policy(policy)",
    "keyword": "config.set_model_transaction_policy(transaction_policy_dict={'decoupled': True})",
    "function": "TritonPythonModel.decouple(config)",
    "loop": "[config.set_model_transaction_policy({name: True}) for name in ['decoupled']]",
    "in place": "config.as_dict()['model_transaction_policy'] = {'decoupled': True}",
}


@pytest.mark.parametrize("way", [*DECOUPLES, "file", "comment", "false"])
@pytest.mark.parametrize("threads", [None, 3])
async def test_completed_configuration_can_make_model_decoupled(
    tmp_path: Path, way: str, threads: int | None
) -> None:
    line = DECOUPLES.get(way, "pass")
    if way == "comment":
        line = "pass  # config.set_model_transaction_policy(dict(decoupled=True))"
    elif way == "false":
        line = "config.set_model_transaction_policy({'decoupled': False})"
    body = (
        "  def decouple(config): config.set_model_transaction_policy({'decoupled': True})\n"
        f"  @staticmethod\n  def auto_complete_config(config):\n    {line}\n    return config\n"
        "  def execute(self, requests): return None\n"
    )
    config = CONFIG + (" model_transaction_policy { decoupled: true }" if way == "file" else "")
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(HEAD + body)
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    settings = await settings_in(tmp_path / "m")
    settings.threads = threads
    model = settings.implementation(settings)
    assert model.load()
    decoupled = way not in ("comment", "false")
    async with run(tmp_path) as served:
        assert served.application.models.described("m").signature.streams is decoupled
    assert settings.configuration["model_transaction_policy"] == {"decoupled": decoupled}
    assert settings.threads == (threads if decoupled else threads or 1)


TELLS_SHAPE = """  def execute(self, requests):
    responses = []
    for request in requests:
      shape = pb_utils.get_input_tensor_by_name(request, "X").shape()
      self.seen = [*getattr(self, "seen", []), shape]
      array = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
      responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
    return responses
"""


@pytest.mark.parametrize(
    ("size", "dims", "reshape", "asked", "inner"),
    [
        (0, "4", "2, 2", [4], [2, 2]),
        (0, "1", "", [1], []),
        (4, "1", "", [2, 1], [2]),
        (4, "4", "1, 4, 1", [2, 4], [2, 1, 4, 1]),
        (0, "-1, 4", "-1, 2, 2", [3, 4], [3, 2, 2]),
        (0, "-1, 1, -1", "-1, -1", [3, 1, 2], [3, 2]),
        (4, "-1", "1, -1", [2, 3], [2, 1, 3]),
    ],
)
async def test_reshape_of_inputs_and_outputs(
    tmp_path: Path, size: int, dims: str, reshape: str, asked: list[int], inner: list[int]
) -> None:
    tensor = f"data_type: TYPE_INT32 dims: [{dims}] reshape: {{ shape: [{reshape}] }}"
    config = (
        f'backend: "python" max_batch_size: {size} '
        f'input [{{ name: "X" {tensor} }}] output [{{ name: "OUT" {tensor} }}]'
    )
    model = await of(tmp_path, TELLS_SHAPE, config)
    values = [*range(int(np.prod(asked)))]
    given = InferenceRequest(inputs=[RequestInput(name="X", datatype="INT32", shape=asked, data=values)])
    (output,) = model.predict(given).outputs
    assert (output.shape, output.data.flat()) == (asked, values)
    assert model._code.seen == [inner]
    assert given.inputs[0].shape == asked


@pytest.mark.parametrize("reshape", ["3", "-1", "2, -1"])
async def test_reshape_to_other_element_count_fails_load(tmp_path: Path, reshape: str) -> None:
    config = CONFIG.replace("dims: [1]", f"dims: [4] reshape {{ shape: [{reshape}] }}")
    with pytest.raises((InvalidSettings, ModelLoadFailed), match="cannot be reshaped"):
        await of(tmp_path, "  def execute(self, requests): return []\n", config)


async def test_settings_are_unchanged_without_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + "  def execute(self, requests): return []\n")
    settings = ModelSettings(
        name="m",
        implementation="inferstream.plugins.triton.model.PythonModel",
        parameters={"uri": str(tmp_path / "model.py")},
    )
    model = settings.implementation(settings)
    assert model.load()
    assert settings.configuration == {}


async def test_dynamic_batching_set_by_code_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await made(folders.written(tmp_path, "same"))
    assert "dynamic_batching in auto_complete_config is ignored" in caplog.text
