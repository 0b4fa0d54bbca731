"""Descriptors of typed messages, made without protoc."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from inferstream import App, TensorInput
from inferstream.functions.function import Function
from inferstream.protos.typed import Method, build_method
from inferstream.protos.typed_files import build_file, build_pool, message_classes

Numbers = TensorInput[np.float32, "n"]


def plain(a: int, b: str = "x", c: list[float] | None = None) -> str: ...


def arrays(x: Numbers) -> int: ...


async def counted(n: int) -> AsyncIterator[int]:
    yield n


async def summed(items: AsyncIterator[int]) -> int: ...


def method(function: Any, service: str = "shop.Prices") -> Method:
    app = App(service=service)
    made = Function(function, function.__name__, app=app)
    app._add(made)
    found = build_method(made.name, made.signature())
    assert found is not None
    return found


def test_optional_arguments_have_presence_and_lists_repeat() -> None:
    request, _ = message_classes(method(plain))
    message: Any = request()
    assert not message.HasField("b")
    message.b = ""
    assert message.HasField("b")
    with pytest.raises(ValueError):
        message.HasField("c")
    assert request.DESCRIPTOR.full_name == "shop.PlainRequest"


def test_array_message_is_included_only_if_needed() -> None:
    with_arrays, without = build_file([method(arrays)]), build_file([method(plain)])
    assert "TensorProto" in [message.name for message in with_arrays.message_type]
    assert "TensorProto" not in [message.name for message in without.message_type]
    both = build_file([method(arrays), method(plain)])
    assert [message.name for message in both.message_type].count("TensorProto") == 1
    assert (
        build_pool([method(arrays)])
        .FindMessageTypeByName("shop.ArraysRequest")
        .fields_by_name["x"]
        .message_type.name
        == "TensorProto"
    )


def test_each_side_of_an_rpc_streams_like_its_function() -> None:
    pool = build_pool([method(function) for function in (plain, counted, summed)])
    rpcs = pool.FindServiceByName("shop.Prices").methods_by_name
    streams = {name: (rpc.client_streaming, rpc.server_streaming) for name, rpc in rpcs.items()}
    assert sorted(streams.values()) == [(False, False), (False, True), (True, False)]


def test_services_of_a_package_share_a_file() -> None:
    file = build_file([method(plain), method(counted, "shop.Other")])
    assert [(service.name, len(service.method)) for service in file.service] == [("Prices", 1), ("Other", 1)]
    assert file.package == "shop"


def test_equally_named_classes_are_separate() -> None:
    first, second = message_classes(method(plain))[0], message_classes(method(plain))[0]
    assert first is not second
    assert first(a=3).SerializeToString() == second(a=3).SerializeToString()
