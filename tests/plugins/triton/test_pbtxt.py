"""Triton's `config.pbtxt` as settings."""

import logging

import pytest
from google.protobuf import __version__ as protobuf

from inferstream.errors import InvalidSettings
from inferstream.ext.runtimes import FolderRepository
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.triton.pbtxt import read_settings

REPOSITORY = get_logger("repository").name
OLD = int(protobuf.split(".")[0]) < 6

FULL = """
# a comment
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [
  { name: "y" data_type: TYPE_FP32 dims: [ -1, 3 ] label_filename: "labels.txt" },
  { name: "t" data_type: TYPE_STRING dims: [ 1 ] }
]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 }
parameters { key: "threshold" value: { string_value: "0.5" } }
response_cache { enable: true }
"""


def written(folder, text: str = FULL, *versions: str):
    for version in versions or ("1",):
        (folder / version).mkdir(parents=True)
    path = folder / "config.pbtxt"
    path.write_text(text)
    return path


async def test_each_field_becomes_a_setting(tmp_path) -> None:
    written(tmp_path / "flowers")
    [settings] = await FolderRepository(tmp_path).list()
    assert (settings.name, settings.version, settings.versions) == ("flowers", "1", ["1"])
    assert settings.implementation_ == "inferstream.plugins.frameworks.onnx.OnnxModel"
    assert settings.parameters.uri == str(tmp_path / "flowers" / "1" / "model.onnx")
    assert [(each.name, each.datatype, each.shape) for each in (*settings.inputs, *settings.outputs)] == [
        ("x", "FP32", [-1, 4]),
        ("y", "FP32", [-1, -1, 3]),
        ("t", "BYTES", [-1, 1]),
    ]
    assert settings.outputs[0].parameters.label_filename == "labels.txt"
    assert (settings.max_batch_size, settings.max_batch_time) == (8, 0.0005)
    assert (settings.parallel_workers, settings.devices) == (2, ["0", "1"])
    assert settings.cache_enabled
    assert settings.parameters.extra == {"threshold": "0.5"}
    config = settings.parameters.model_configuration
    assert config["output"][0]["dims"] == [-1, 3]
    assert config["dynamic_batching"] == {
        "preferred_batch_size": [4, 8],
        "max_queue_delay_microseconds": 500,
    }


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ("dynamic_batching { }", 1.0),
        ("dynamic_batching { } instance_group [ { count: 2 } ]", 0.001),
        ("dynamic_batching { max_queue_delay_microseconds: 200 } instance_group [ { count: 2 } ]", 0.0002),
    ],
)
def test_requests_batch_without_delay_while_batch_runs(tmp_path, more: str, seconds: float) -> None:
    settings = read_settings(written(tmp_path, f'backend: "onnxruntime" max_batch_size: 8 {more}'))
    assert (settings["max_batch_size"], settings["max_batch_time"]) == (8, seconds)


def test_instance_groups_have_names_and_counts(tmp_path) -> None:
    text = 'backend: "onnxruntime" instance_group [{ count: 2 }, { gpus: [ 1 ] }]'
    config = read_settings(written(tmp_path / "m", text))["parameters"]["model_configuration"]
    assert config["instance_group"] == [
        {"name": "m_0", "kind": "KIND_CPU", "count": 2, "gpus": []},
        {"name": "m_1", "kind": "KIND_GPU", "count": 1, "gpus": [1]},
    ]


@pytest.mark.parametrize(
    ("backend", "reshape", "implementation"),
    [
        ("onnxruntime", "", "inferstream.plugins.frameworks.onnx.OnnxModel"),
        ("onnxruntime", "reshape { shape: [ ] }", "inferstream.plugins.triton.reshape.ReshapedOnnx"),
        ("pytorch", "reshape { shape: [ 1, 1 ] }", "inferstream.plugins.triton.reshape.ReshapedTorch"),
        ("python", "reshape { shape: [ 1, 1 ] }", "inferstream.plugins.triton.model.PythonModel"),
    ],
)
@pytest.mark.parametrize("kind", ["input", "output"])
def test_reshape_selects_implementation(tmp_path, backend, reshape, implementation, kind) -> None:
    tensor = f'{kind} [{{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] {reshape} }}]'
    assert (
        read_settings(written(tmp_path, f'backend: "{backend}" {tensor}'))["implementation"] == implementation
    )


def test_requests_are_not_batched_without_dynamic_batching(tmp_path) -> None:
    settings = read_settings(written(tmp_path, 'platform: "pytorch_libtorch" max_batch_size: 8'))
    assert "max_batch_size" not in settings
    assert settings["implementation"] == "inferstream.plugins.frameworks.torch.TorchModel"


def test_sequences_end_after_idle_time(tmp_path) -> None:
    path = written(tmp_path, 'backend: "onnxruntime" sequence_batching { }')
    assert read_settings(path)["sequence_idle"] == 1.0
    path.write_text(
        'backend: "onnxruntime" sequence_batching { max_sequence_idle_microseconds: 5000000 direct { } }'
    )
    assert read_settings(path)["sequence_idle"] == 5.0
    config = read_settings(path)["parameters"]["model_configuration"]
    assert config["sequence_batching"] == {"max_sequence_idle_microseconds": 5000000}


def test_newest_version_allowed_by_policy_is_served(tmp_path, caplog) -> None:
    text = 'name: "m" backend: "onnxruntime" default_model_filename: "net.onnx"'
    path = written(tmp_path / "m", text, "1", "2", "10", "old")
    assert read_settings(path)["parameters"]["uri"] == str(tmp_path / "m" / "10" / "net.onnx")
    path.write_text(text + " version_policy { specific { versions: [ 1, 2 ] } }")
    with caplog.at_level(logging.WARNING, REPOSITORY):
        assert read_settings(path)["parameters"]["version"] == "2"
    assert "only version 2 is served" in caplog.text


async def test_new_version_is_detected_without_file_change(tmp_path) -> None:
    path = written(tmp_path / "m", 'backend: "onnxruntime"')
    repository = FolderRepository(tmp_path)
    assert [each.version for each in await repository.list()] == ["1"]
    (path.parent / "2").mkdir()
    assert [each.version for each in await repository.list()] == ["2"]


def test_unsupported_field_is_named(tmp_path, caplog) -> None:
    path = written(tmp_path / "m", 'backend: "onnxruntime"\noptimization { graph { level: 1 } }')
    with caplog.at_level(logging.WARNING, REPOSITORY):
        assert read_settings(path)["implementation"].endswith("OnnxModel")
    assert 'config.pbtxt: line 2: field "optimization" is unknown and ignored' in caplog.text


@pytest.mark.skipif(OLD, reason="protobuf 5 passes over no list of messages")
def test_unsupported_list_needs_no_colon(tmp_path, caplog) -> None:
    text = """
backend: "onnxruntime"
sequence_batching {
  control_input [ { name: "a [ \\" [" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
  max_sequence_idle_microseconds: 5000000 # idle [
  state [ ]
}
parameters [ { key: "path" value: { string_value: "b ['#[" } } ]
"""
    with caplog.at_level(logging.WARNING, REPOSITORY):
        settings = read_settings(written(tmp_path / "m", text))
    assert settings["sequence_idle"] == 5.0
    assert settings["parameters"]["extra"] == {"path": "b ['#["}
    assert 'line 4: field "control_input" is unknown and ignored' in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('backend: "onnxruntime"\nmax_batch_size: "many"', "line 2:"),
        ('backend: "onnxruntime" input [', "line 1:"),
        ('backend: "tensorrt"', 'the backend "tensorrt" is not here; these are: '),
        (
            'platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }',
            "with the setting calls",
        ),
        ("", 'the backend "" is not here'),
        ('backend: "onnxruntime" input [{ name: "x" dims: [1] }]', '"x" has no data_type'),
        ('backend: "onnxruntime" default_model_filename: "../../x"', "is not the name of a file"),
        ('backend: "onnxruntime" version_policy { specific { versions: [7] } }', "no folder of a version"),
    ],
)
def test_invalid_configuration_is_named(tmp_path, text: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as wrong:
        read_settings(written(tmp_path / "m", text))
    assert said in wrong.value.message
    assert "config.pbtxt" in wrong.value.message


async def test_own_settings_take_precedence(tmp_path) -> None:
    path = written(tmp_path / "beside")
    ours = path.parent / "model-settings.json"
    ours.write_text('{"implementation": "a.B"}')
    repository = FolderRepository(tmp_path)
    assert [each.source for each in await repository.list()] == [str(ours)]
    ours.rename(path.parent / "1" / ours.name)
    assert [each.source for each in await repository.list()] == [str(path.parent / "1" / ours.name)]
