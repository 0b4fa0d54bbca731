"""Details of MLServer's names that its own users' tests compare."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from prometheus_client import Counter, Histogram

from inferstream import compat
from inferstream.telemetry.context import model_context

compat.install()

from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.codecs.base import (  # type: ignore[import-not-found]
    _codec_registry,
    find_input_codec,
    find_request_codec,
)
from mlserver.grpc import dataplane_pb2 as pb  # type: ignore[import-not-found]
from mlserver.grpc.converters import (  # type: ignore[import-not-found]
    InferTensorContentsConverter,
    ModelInferRequestConverter,
)
from mlserver.logging import ModelLoggerFormatter  # type: ignore[import-not-found]
from mlserver.settings import Settings  # type: ignore[import-not-found]
from mlserver.types import (  # type: ignore[import-not-found]
    Datatype,
    InferenceRequest,
    Parameters,
    RequestInput,
    TensorData,
)


@pytest.mark.parametrize("datatype", ["INT64", Datatype.INT64])
@pytest.mark.parametrize("values", [[6], TensorData([6])])
def test_contents_are_made_of_plain_lists_too(datatype: str, values: object) -> None:
    assert InferTensorContentsConverter.from_types(values, datatype) == pb.InferTensorContents(
        int64_contents=[6]
    )


@pytest.mark.parametrize("parameters", [{}, {"priority": pb.InferParameter(int64_param=2)}])
def test_a_converted_request_equals_one_made_by_hand(parameters: dict[str, pb.InferParameter]) -> None:
    message = pb.ModelInferRequest(
        inputs=[
            pb.ModelInferRequest.InferInputTensor(
                name="x", datatype="INT32", shape=[1], contents=pb.InferTensorContents(int_contents=[4])
            )
        ],
        parameters=parameters,
    )
    given = {"parameters": Parameters(priority=2)} if parameters else {}
    inputs = [RequestInput(name="x", datatype="INT32", shape=[1], data=[4])]
    found, expected = (
        ModelInferRequestConverter.to_types(message),
        InferenceRequest(id="", inputs=inputs, **given),
    )
    assert found == expected
    assert dict(found) == dict(expected)
    assert found.model_dump() == expected.model_dump()


def test_objects_in_an_array_keep_their_values() -> None:
    output = NumpyCodec.encode_output("x", np.array([None, "bar"]))
    assert (output.datatype, output.shape, output.data) == ("BYTES", [2, 1], TensorData([None, "bar"]))
    assert NumpyCodec.encode_output("x", np.array(["bar"])).data == TensorData([b"bar"])


def test_codecs_that_mlserver_lacks_are_found_by_content_type_alone() -> None:
    for find in (find_request_codec, _codec_registry.find_request_codec):
        assert find(type_hint=dict) is None
        assert find(payload={"a": np.array([1])}) is None
        assert find(content_type="dict").ContentType == "dict"
    for find in (find_input_codec, _codec_registry.find_input_codec):
        assert find(type_hint=dict) is None
        assert find(payload={"a": 1}) is None
        assert find(content_type="json").ContentType == "json"


@pytest.mark.parametrize(
    ("name", "version", "line", "fields"),
    [
        ("foo", "v1", "[foo:v1]", ', "model_name": "foo", "model_version": "v1"'),
        ("foo", "", "[foo]", ', "model_name": "foo"'),
        ('a"b', "", '[a"b]', ', "model_name": "a\\"b"'),
        ("", "v1", "", ""),
    ],
)
def test_records_name_the_model_for_other_formatters(name: str, version: str, line: str, fields: str) -> None:
    for structured, expected in ((False, line), (True, fields)):
        record = logging.LogRecord("mlserver", logging.INFO, "", 1, "hello", (), None)
        formatter = ModelLoggerFormatter(Settings(use_structured_logging=structured))
        formatter.format(record)
        assert record.model == ""  # type: ignore[attr-defined]
        with model_context(name, version):
            shown = formatter.format(record)
        assert record.model == expected  # type: ignore[attr-defined]
        if structured:
            assert json.loads(shown).get("model_name", "") == name


@pytest.fixture
def served_counter() -> Iterator[Counter]:
    from mlserver.metrics import REGISTRY

    counter = Counter("test_details_counted", "A counter", registry=REGISTRY)
    yield counter
    REGISTRY.unregister(counter)


def test_what_a_registry_is_given_is_found_there_by_name(served_counter: Counter) -> None:
    from mlserver.metrics import REGISTRY
    from mlserver.metrics.errors import MetricNotFound
    from mlserver.metrics.registry import MetricsRegistry

    own = MetricsRegistry()
    histogram = Histogram("test_details_own", "A histogram", registry=own)
    assert own["test_details_own"] is histogram
    assert "test_details_counted" not in own
    assert "test_details_own" not in REGISTRY
    assert REGISTRY.get("test_details_counted") is served_counter
    with pytest.raises(MetricNotFound):
        own["test_details_counted"]


def test_the_served_registry_shows_and_forgets_what_it_is_given() -> None:
    from mlserver.metrics import REGISTRY
    from prometheus_client import REGISTRY as SHOWN

    counter = Counter("test_details_shown", "A counter", registry=REGISTRY)
    for registry in (REGISTRY, SHOWN):
        assert registry.get_sample_value("test_details_shown_total") == 0
    REGISTRY.unregister(counter)
    for registry in (REGISTRY, SHOWN):
        assert registry.get_sample_value("test_details_shown_total") is None


def test_a_program_may_choose_uvloop_for_its_own_loops() -> None:
    code = (
        "import asyncio\n"
        "from inferstream import compat; compat.install()\n"
        "from mlserver.utils import install_uvloop_event_loop; install_uvloop_event_loop()\n"
        "print(type(asyncio.new_event_loop()).__module__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "uvloop\n"


@pytest.mark.parametrize("conda", [False, True])
def test_a_dockerfile_may_have_a_base_image_of_the_user(
    tmp_path, monkeypatch: pytest.MonkeyPatch, conda: bool
) -> None:
    from mlserver import __version__
    from mlserver.cli.build import generate_dockerfile

    monkeypatch.chdir(tmp_path)
    if conda:
        (tmp_path / "environment.yml").touch()
    plain, own = generate_dockerfile(), generate_dockerfile(base_image="own/image:{version}-slim")
    images = [line.split()[1] for line in own.splitlines() if line.startswith("FROM ")]
    base = f"own/image:{__version__}-slim"
    assert images == (["condaforge/miniforge3", base] if conda else [base, base])
    changed = [(a, b) for a, b in zip(plain.splitlines(), own.splitlines(), strict=True) if a != b]
    assert all(b.startswith(f"FROM {base}") for _, b in changed)
