"""Models of Triton's Python backend, loaded by themselves."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferstream.context import RequestContext, enter
from inferstream.errors import InvalidOutput, InvalidSettings, ModelError, ModelLoadFailed
from inferstream.repository.folder import read_settings
from inferstream.types import InferenceRequest, RequestInput

from . import folders

HEAD = "import numpy as np\nimport triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n"
CONFIG = 'backend: "python" output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]'


@pytest.fixture(autouse=True)
def no_module_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "model", raising=False)


async def made(folder: Path) -> Any:
    settings = read_settings(folder / "config.pbtxt", folder.parent)
    model = settings.implementation(settings)
    assert await model.load()
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
def context() -> RequestContext:
    made = RequestContext()
    enter(made)
    return made


async def test_the_code_gets_its_configuration_and_answers(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "add_sub"))
    values = [1.0, 2.0, 3.0, 4.0]
    inputs = [
        RequestInput(name=f"INPUT{number}", datatype="FP32", shape=[4], data=values) for number in range(2)
    ]
    response = model.predict(InferenceRequest(inputs=inputs))
    assert [each.data.flat() for each in response.outputs] == [[2.0, 4.0, 6.0, 8.0], [0.0] * 4]
    assert await model.unload()


async def test_the_arguments_of_initialize(tmp_path: Path) -> None:
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
    assert json.loads(args["model_config"])["output"] == [
        {"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]}
    ]


async def test_many_responses_come_from_threads(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "repeat"))
    responses = model.predict_stream(iter([asking(IN=[5, 6], DELAY=[])]))
    assert [each.outputs[1].data.flat() for each in responses] == [[5], [6]]
    await model.unload()


async def test_the_code_completes_its_configuration(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "square"))
    metadata = await model.metadata()
    assert [(each.name, each.datatype, each.shape) for each in metadata.inputs] == [("IN", "INT32", [1])]
    assert [len(each.outputs) for each in model.predict_stream(iter([asking(IN=[3])]))] == [1, 1, 1]
    with pytest.raises(ModelError, match="a negative number") as refused:
        next(model.predict_stream(iter([asking(IN=[-1])])))
    assert refused.value.status_code == 400


async def test_what_the_code_completes_is_that_of_the_settings(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "same"))
    config = model.settings.triton_config
    assert (config["max_batch_size"], config["dynamic_batching"]) == (4, {})
    assert [each.shape for each in (*model.inputs, *model.outputs)] == [[-1, 2], [-1, 2]]


async def test_each_load_completes_what_is_written_and_not_what_the_last_one_made(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "same"))
    assert model.settings.written_config.get("max_batch_size", 0) == 0
    model.settings.triton_config = {**model.settings.triton_config, "max_batch_size": 9}
    again = type(model)(model.settings)
    assert await again.load()
    assert again.settings.triton_config["max_batch_size"] == 4


async def test_a_reader_who_leaves_ends_the_stream(tmp_path: Path) -> None:
    model = await made(folders.written(tmp_path, "square"))
    responses = model.predict_stream(iter([asking(IN=[1_000_000])]))
    assert np.asarray(next(responses).outputs[0].data.flat()) == [1_000_000]
    responses.close()


async def test_a_client_that_left_is_not_waited_for(tmp_path: Path, context: RequestContext) -> None:
    body = "  def execute(self, requests):\n    self.kept = requests[0].get_response_sender()\n"
    model = await of(tmp_path, body)
    context.cancelled = True
    with pytest.raises(InvalidOutput, match="0 responses"):
        model.predict(asking(IN=[1]))


async def test_one_response_may_go_by_the_sender_too(tmp_path: Path) -> None:
    body = """
  def execute(self, requests):
    out = pb_utils.Tensor("OUT", np.array([1], np.int32))
    requests[0].get_response_sender().send(pb_utils.InferenceResponse([out]), 1)
"""
    response = (await of(tmp_path, body)).predict(asking(IN=[1]))
    assert response.outputs[0].name == "OUT"


async def test_execute_may_be_async(tmp_path: Path) -> None:
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
async def test_what_is_no_answer_is_an_error(
    tmp_path: Path, returned: str, kind: type[Exception], said: str
) -> None:
    model = await of(tmp_path, f"  def execute(self, requests): return {returned}\n")
    with pytest.raises(kind, match=said):
        model.predict(asking(IN=[1]))


async def test_the_message_of_its_exception_reaches_the_client(tmp_path: Path) -> None:
    model = await of(
        tmp_path, "  def execute(self, requests): raise pb_utils.TritonModelException('no luck')\n"
    )
    with pytest.raises(ModelError, match="no luck"):
        model.predict(asking(IN=[1]))


async def test_what_does_not_load_says_why(tmp_path: Path) -> None:
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
