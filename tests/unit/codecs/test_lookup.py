"""Content types, declarations and payloads choose a codec; what it made is kept with its tensor and nowhere else."""

import subprocess
import sys
from typing import List  # noqa: UP035  # as older model code spells it

import numpy as np
import numpy.typing as npt
import pytest

from inferstream import codecs
from inferstream.codecs import (
    DatetimeCodec,
    DecodedParameterName,
    InputCodec,
    NumpyCodec,
    NumpyRequestCodec,
    RequestCodec,
    StringCodec,
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
    get_decoded,
    get_decoded_or_raw,
    has_decoded,
    register_input_codec,
)
from inferstream.codecs.json import DictCodec
from inferstream.codecs.registry import find_input_codec, find_request_codec
from inferstream.codecs.registry import inputs as table
from inferstream.errors import CodecError, CodecNotFound
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from tests.unit.codecs.values.test_values import Aliased


def numbers(
    name: str = "x", parameters: Parameters | None = None, data: list[int] | None = None
) -> RequestInput:
    return RequestInput(name=name, shape=[1], datatype="INT64", data=data or [1], parameters=parameters)


def declared(content_type: str) -> dict[str, MetadataTensor]:
    parameters = Parameters(content_type=content_type)
    return {"x": MetadataTensor(name="x", datatype="INT64", shape=[-1], parameters=parameters)}


def test_what_is_exported_is_there_and_sorted() -> None:
    assert sorted(codecs.__all__) == codecs.__all__
    assert all(getattr(codecs, name) is not None for name in codecs.__all__)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = codecs.Nothing


def test_the_tensors_own_content_type_wins_over_the_declared_one() -> None:
    text = RequestInput(
        name="x", shape=[1], datatype="BYTES", data=["a"], parameters=Parameters(content_type="str")
    )
    assert decode_request_input(text, declared("np")) == ["a"]
    assert decode_request_input(numbers(), declared("np")).tolist() == [1]


def test_unknown_content_types_fall_to_the_default_and_then_to_the_data() -> None:
    unknown = Parameters(content_type="nothing")
    assert decode_request_input(numbers(parameters=unknown), {}, NumpyCodec).tolist() == [1]
    data = decode_request_input(numbers(parameters=unknown))
    assert isinstance(data, TensorData)
    assert data.root == [1]


def test_requests_are_decoded_inputs_first() -> None:
    request = InferenceRequest(inputs=[numbers(parameters=Parameters(content_type="np"))])
    assert decode_inference_request(request) is request
    assert has_decoded(request.inputs[0])
    found = decode_inference_request(request, content_type="np")
    assert found is get_decoded(request.inputs[0])
    assert get_decoded_or_raw(request) is found
    assert decode_inference_request(request, content_type="np") is found


def test_a_payload_is_decoded_once_and_stays_off_the_wire() -> None:
    tensor = numbers()
    before = tensor.model_dump()
    found = decode_request_input(tensor, {}, NumpyCodec)
    assert decode_request_input(tensor, {}, NumpyCodec) is found
    assert getattr(tensor.parameters, DecodedParameterName) is found
    assert tensor.model_dump() == before
    assert "parameters" not in tensor.json()


def test_tensors_that_share_parameters_do_not_share_payloads() -> None:
    shared = Parameters(content_type="np", kept="yes")
    first, second = numbers("a", shared, [1]), numbers("b", shared, [2])
    assert [decode_request_input(tensor).tolist() for tensor in (first, second)] == [[1], [2]]
    assert has_decoded(first)
    assert has_decoded(second)
    assert second.parameters.kept == "yes"


def test_new_data_is_decoded_anew() -> None:
    tensor = numbers(parameters=Parameters(content_type="np"))
    decode_request_input(tensor)
    tensor.data = TensorData([7])
    assert not has_decoded(tensor)
    assert get_decoded(tensor) is None
    assert get_decoded_or_raw(tensor) is tensor.data
    assert decode_request_input(tensor).tolist() == [7]


def test_outputs_are_encoded_as_asked_as_declared_or_by_what_they_are() -> None:
    asked = RequestOutput(name="x", parameters=Parameters(content_type="base64"))
    plain = RequestOutput(name="x")
    assert encode_response_output(["a"], asked).data.root == [b"YQ=="]
    assert encode_response_output(["a"], plain, declared("base64")).data.root == [b"YQ=="]
    assert encode_response_output(["a"], plain).parameters.content_type == "str"
    assert encode_response_output({"a"}, plain, {}, StringCodec).data.root == [b"a"]
    with pytest.raises(CodecNotFound, match="'x' of type set"):
        encode_response_output({"a"}, plain)


def test_responses_are_encoded_by_what_they_are() -> None:
    assert encode_inference_response(np.ones(2), "m", "v").outputs[0].name == "output-1"
    with pytest.raises(CodecNotFound, match="set"):
        encode_inference_response({"a"}, "m")
    assert encode_inference_response([1.0], "m", None, NumpyRequestCodec).outputs[0].shape == [1, 1]


@pytest.mark.parametrize(
    ("content_type", "payload"),
    [
        ("str", [1]),
        ("str", 5),
        ("str", ["\ud800"]),
        ("base64", np.ones(2)),
        ("datetime", np.ones(2)),
        ("json", [object()]),
        ("json", [2**70]),
        ("np", [[1], [1, 2]]),
        ("np", {"a": 1}),
        ("np", np.array(["2026"], "datetime64[Y]")),
        ("np", np.array([1j])),
    ],
)
def test_a_content_type_the_payload_does_not_fit_is_refused_by_name(content_type: str, payload) -> None:
    asked = RequestOutput(name="bad", parameters=Parameters(content_type=content_type))
    with pytest.raises(CodecError, match='output "bad"'):
        encode_response_output(payload, asked)


@pytest.mark.parametrize(
    ("payload", "content_type", "data"),
    [
        ("abc", "str", [b"abc"]),
        (["a", "b"], "str", [b"a", b"b"]),
        (b"\x00", "base64", [b"AA=="]),
        (True, "np", [True]),
        ([[1, 2], [3, 4]], "np", [1, 2, 3, 4]),
        ({"k": float("nan")}, "json", [b'{"k":null}']),
        ([{"k": np.arange(2)}], "json", [b'{"k":[0,1]}']),
    ],
)
def test_dictionaries_hold_plain_python_values(payload, content_type: str, data: list) -> None:
    (tensor,) = DictCodec.encode_request({"a": payload}).inputs
    assert (tensor.name, tensor.parameters.content_type, tensor.data.root) == ("a", content_type, data)
    with pytest.raises(CodecNotFound, match="input 'b' of type object"):
        DictCodec.encode_request({"b": object()})


@pytest.mark.parametrize(
    ("hint", "codec"),
    [
        (List[str], StringCodec),  # noqa: UP006
        (npt.NDArray[np.float32], NumpyCodec),
        (Aliased[np.float32], NumpyCodec),
        (list[DatetimeCodec], None),
        (list[int], None),
    ],
)
def test_hints_are_found_in_every_spelling(hint, codec) -> None:
    assert find_input_codec(type_hint=hint) is codec


def test_dictionaries_are_found_by_any_hint() -> None:
    for hint in (dict, dict[str, np.ndarray]):
        assert find_request_codec(type_hint=hint) is DictCodec


def test_the_last_registration_of_a_content_type_wins() -> None:
    class First(InputCodec):
        ContentType = "of-this-test"

    class Second(First):
        pass

    try:
        register_input_codec(First)
        register_input_codec(Second)
        assert find_input_codec(content_type="of-this-test") is Second
    finally:
        table.codecs.pop("of-this-test")


@pytest.mark.parametrize("name", ["encode", "decode"])
def test_older_names_still_work_and_warn(name: str) -> None:
    argument = ("x", ["a"]) if name == "encode" else (StringCodec.encode_input("x", ["a"]),)
    with pytest.warns(DeprecationWarning, match=f"use {name}_"):
        getattr(StringCodec, name)(*argument)
    request = (NumpyRequestCodec.encode_request(np.ones(1)),)
    with pytest.warns(DeprecationWarning, match=f"use {name}_"):
        getattr(NumpyRequestCodec, name)(*(("m", np.ones(1)) if name == "encode" else request))


def ran(code: str) -> str:
    """What a fresh process prints, since this one has long loaded every codec."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_codec_of_the_authors_is_not_replaced_by_ours_loaded_later() -> None:
    code = """
from inferstream.codecs import InputCodec, register_input_codec
from inferstream.codecs.registry import find_input_codec, find_request_codec

@register_input_codec
class Mine(InputCodec):
    ContentType = "json"

assert find_request_codec(content_type="dict") is not None
print(find_input_codec(content_type="json") is Mine)
"""
    assert ran(code) == "True"


def test_a_payload_that_mlserver_has_no_codec_for_goes_to_whom_an_author_names() -> None:
    class Mine(RequestCodec):
        @classmethod
        def encode_response(cls, model_name: str, payload: object, *_: object) -> InferenceResponse:
            return InferenceResponse(model_name=f"mine of {model_name}", outputs=[])

    class Cells(InputCodec):
        @classmethod
        def encode_output(cls, name: str, payload: object, **_: object) -> ResponseOutput:
            return StringCodec.encode_output(name, ["mine"])

    for known in ({"a": [1.0]}, {"a": 1}):
        assert encode_inference_response(known, "m").parameters.content_type == "dict"
        assert encode_inference_response(known, "m", default_codec=Mine).model_name == "mine of m"
    assert encode_inference_response(["a"], "m", default_codec=Mine).model_name == "m"
    asked = RequestOutput(name="x")
    assert encode_response_output([{"a": 1}], asked).parameters.content_type == "json"
    assert encode_response_output([{"a": 1}], asked, default_codec=Cells).data.root == [b"mine"]


@pytest.mark.parametrize("first", ["", "import inferstream.codecs.json"])
def test_a_codec_that_is_registered_goes_before_those_that_mlserver_lacks(first: str) -> None:
    code = f"""
{first}
from inferstream.codecs import RequestCodec, register_request_codec
from inferstream.codecs.registry import find_request_codec

@register_request_codec
class Mine(RequestCodec):
    ContentType = "mine"

    @classmethod
    def can_encode(cls, payload):
        return isinstance(payload, dict | list)

print(find_request_codec(payload={{"a": 1}}).__name__, find_request_codec(payload=["a"]).__name__)
"""
    assert ran(code) == "Mine StringRequestCodec"


def test_pandas_waits_until_it_is_asked_for_and_then_serves_every_thread() -> None:
    code = """
import sys, threading
import numpy as np
from inferstream.codecs.registry import find_input_codec, find_request_codec

find_request_codec(payload=np.ones(1)), find_input_codec(type_hint=list[str])
light = "pandas" not in sys.modules
found, together = [], threading.Barrier(4)

def ask():
    together.wait()
    found.append(find_request_codec(content_type="pd").__name__)

threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(light, *found)
"""
    assert ran(code) == "True" + 4 * " PandasCodec"


def test_without_pandas_the_log_says_how_to_install_it() -> None:
    code = """
import logging, sys
from inferstream.codecs.registry import find_request_codec

sys.modules["pandas"] = None
logging.basicConfig(stream=sys.stdout, format="%(message)s")
print(find_request_codec(content_type="pd"))
"""
    assert ran(code).splitlines() == [
        'codec "pd" is not available: the content type "pd" needs `pip install "inferstream[pandas]"`: '
        "pandas is not installed",
        "None",
    ]


def test_frames_and_kinds_of_frames_are_known_without_the_content_type() -> None:
    code = """
import pandas as pd
from inferstream.codecs.registry import find_request_codec

class Mine(pd.DataFrame):
    pass

print(find_request_codec(payload=Mine()).__name__, find_request_codec(type_hint=pd.DataFrame).__name__)
"""
    assert ran(code) == "PandasCodec PandasCodec"
