"""Codecs by content type, payload and hint, whoever registers them."""

import subprocess
import sys
from typing import List  # noqa: UP035  # as older model code spells it

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from inferstream.codecs import (
    DatetimeCodec,
    InputCodec,
    NumpyCodec,
    PandasCodec,
    RequestCodec,
    StringCodec,
    encode_inference_response,
    encode_response_output,
    register_input_codec,
)
from inferstream.codecs.json import DictCodec
from inferstream.codecs.registry import find_input_codec, find_request_codec
from inferstream.codecs.registry import inputs as table
from inferstream.types import (
    InferenceResponse,
    RequestOutput,
    ResponseOutput,
)

from .values.samples import Aliased


def test_lookup_by_content_type_payload_and_hint() -> None:
    assert find_input_codec(content_type="str") is StringCodec
    assert find_input_codec(content_type="nothing") is None
    assert find_input_codec(payload=np.eye(1)) is NumpyCodec
    assert find_input_codec(type_hint=list[str]) is StringCodec
    assert find_request_codec(payload=pd.DataFrame()) is PandasCodec


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
def test_type_hints_are_found_in_every_spelling(hint, codec) -> None:
    assert find_input_codec(type_hint=hint) is codec


def test_dictionaries_are_found_by_any_hint() -> None:
    for hint in (dict, dict[str, np.ndarray]):
        assert find_request_codec(type_hint=hint) is DictCodec


def test_last_registration_of_a_content_type_wins() -> None:
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


def ran(code: str) -> str:
    """What a fresh process prints, since this one has long loaded every codec."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_custom_codec_is_not_replaced_by_a_lazy_builtin() -> None:
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


def test_custom_codec_handles_payloads_unknown_to_mlserver() -> None:
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
def test_registered_codec_precedes_inferstream_extras(first: str) -> None:
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


def test_pandas_is_imported_on_first_use_and_serves_every_thread() -> None:
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


def test_missing_pandas_is_logged_with_the_extra() -> None:
    code = """
import logging, sys
from inferstream.codecs.registry import find_request_codec

sys.modules["pandas"] = None
logging.basicConfig(stream=sys.stdout, format="%(message)s")
print(find_request_codec(content_type="pd"))
"""
    assert ran(code).splitlines() == [
        'codec "pd" is not available: the content type "pd" needs pandas, '
        'which is not installed; hint: pip install "pandas>=2.2"',
        "None",
    ]


def test_data_frames_and_subclasses_are_found_without_content_type() -> None:
    code = """
import pandas as pd
from inferstream.codecs.registry import find_request_codec

class Mine(pd.DataFrame):
    pass

print(find_request_codec(payload=Mine()).__name__, find_request_codec(type_hint=pd.DataFrame).__name__)
"""
    assert ran(code) == "PandasCodec PandasCodec"
