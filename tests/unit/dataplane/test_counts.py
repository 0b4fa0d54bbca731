"""What a request may hold in its tensors."""

import json
from collections.abc import AsyncIterator

import pytest

from inferstream.dataplane.counts import LARGE, CountedRequests, Counts
from inferstream.errors import InvalidRequest, PayloadTooLarge
from inferstream.protos.json_checks import JsonLimits
from inferstream.signature import Signature
from inferstream.types import InferenceRequest, MetadataTensor, Parameters, RequestInput, TensorData

JSON = MetadataTensor(name="d", datatype="BYTES", shape=[1], parameters=Parameters(content_type="json"))
NUMBERS = MetadataTensor(name="n", datatype="INT64", shape=[-1])
SIGNATURE = Signature(inputs=(JSON, NUMBERS), function=True)
LISTS = "[" + "[]," * 60 + "[]]"


def counts(values: int = 50, depth: int = 5, size: int = 1000) -> Counts:
    return Counts(JsonLimits(size, depth, values), SIGNATURE, frozenset({"messages"}))


def asked(
    name: str, data: object, shape: list[int] | None = None, tag: str | None = None
) -> InferenceRequest:
    parameters = None if tag is None else Parameters(content_type=tag)
    held = data if isinstance(data, TensorData) else TensorData(data)
    return InferenceRequest.of([RequestInput.of(name, shape or [1], "BYTES", held, parameters)])


def raw(*elements: bytes) -> TensorData:
    parts = [len(each).to_bytes(4, "little") + each for each in elements]
    return TensorData.from_raw(b"".join(parts), "BYTES")


@pytest.mark.parametrize(
    ("request_", "setting"),
    [
        (asked("d", [LISTS]), "max_json_values"),
        (asked("d", [LISTS.encode()]), "max_json_values"),
        (asked("d", raw(LISTS.encode())), "max_json_values"),
        (asked("d", [[LISTS], ["1"]]), "max_json_values"),
        (asked("d", ["[1,2,3,4,5,6,7,8,9,10]"] * 8), "max_json_values"),
        (asked("d", ["[" + "1," * 60 + "1]"]), "max_json_values"),
        (asked("d", ["[" * 6 + "]" * 6]), "max_json_depth"),
        (asked("d", ['"' + "a" * 1000 + '"']), "max_json_bytes"),
        (asked("other", ["[" * 6], tag="pd_json"), "max_json_depth"),
        (asked("messages", raw(*[b""] * 51)), "max_json_values"),
        (asked("other", [b""] * 51), "max_json_values"),
    ],
)
def test_exceeded_limit_names_input_and_setting(request_: InferenceRequest, setting: str) -> None:
    found = counts()
    assert found.estimate_bytes(request_) > 0
    with pytest.raises((InvalidRequest, PayloadTooLarge), match=setting) as refused:
        found.check(request_)
    assert refused.value.message.startswith(f'input "{request_.inputs[0].name}": ')


@pytest.mark.parametrize(
    "request_",
    [
        asked("d", ['[{"a": 1}]']),
        asked("d", []),
        asked("d", [None]),
        asked("d", [[["1"]], "2"]),
        asked("other", ["[" * 900]),
        asked("other", raw(b"[" * 900)),
        asked("other", raw(*[b""] * 50)),
        asked("d", raw(b"\1")),
    ],
)
def test_small_requests_are_not_weighed(request_: InferenceRequest) -> None:
    assert counts().estimate_bytes(request_) == 0


def test_list_numbers_count_and_array_numbers_do_not() -> None:
    tensors = [RequestInput.of(name, [51], "INT64", TensorData([1] * 51)) for name in ("n", "array")]
    with pytest.raises(InvalidRequest, match="a list of more than 50 numbers"):
        counts().check(InferenceRequest.of(tensors[:1]))
    assert counts().estimate_bytes(InferenceRequest.of(tensors[1:])) == 0


def test_truncated_raw_elements_are_named() -> None:
    request = asked("other", TensorData.from_raw(b"\0" * 205, "BYTES"))
    with pytest.raises(InvalidRequest, match=r"other.*(left over|more than 50)"):
        counts().check(request)


async def test_later_requests_are_counted_and_large_ones_in_a_thread() -> None:
    async def later() -> AsyncIterator[InferenceRequest]:
        yield asked("d", ["[]"])
        yield asked("d", [json.dumps([["a" * 1000]] * 130)])
        yield asked("d", [LISTS * 10_000])

    found = CountedRequests(later(), counts(values=300, size=10 * LARGE))
    assert [len(request.inputs) async for request in _two(found)] == [1, 1]
    with pytest.raises(InvalidRequest, match="max_json_values"):
        await anext(found)


async def _two(requests: CountedRequests) -> AsyncIterator[InferenceRequest]:
    yield await anext(requests)
    yield await anext(requests)
