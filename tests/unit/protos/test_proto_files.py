"""The published `.proto` files are ones that protoc accepts, and describe what the server serves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from inferstream import App
from inferstream.protos.pool import POOL
from inferstream.protos.proto_files import ProtoFile, published_files
from inferstream.signature import Signature


def typed(*apps: App) -> list[tuple[str, Signature]]:
    return [(function.name, function.signature()) for app in apps for function in app]


def compiled(found: list[ProtoFile], folder: Path) -> dict[str, FileDescriptorSet]:
    """What protoc makes of each file, as it would be for a client that saved all of them."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    sets = {}
    for file in found:
        at = folder / file.name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(file.text, "utf-8")
    for file in found:
        out = folder / "out.binpb"
        status = protoc.main(["", f"-I{folder}", f"--descriptor_set_out={out}", file.name])
        assert status == 0, file.name
        sets[file.name] = FileDescriptorSet.FromString(out.read_bytes())
    return sets


def test_published_protos_are_the_served_ones(tmp_path: Path) -> None:
    sets = compiled(published_files(), tmp_path)
    assert [*sets] == [
        "dataplane.proto",
        "grpc_service.proto",
        "requests.proto",
        "grpc/health/v1/health.proto",
        "grpc/reflection/v1/reflection.proto",
        "grpc/reflection/v1alpha/reflection.proto",
    ]
    for file in published_files():
        [described] = sets[file.name].file
        for name in file.services:
            assert name.startswith(f"{described.package}.")
            served = {method.name: method for method in POOL.FindServiceByName(name).methods}
            [service] = [each for each in described.service if name.endswith(f".{each.name}")]
            assert {method.name for method in service.method} == {*served}


def test_every_file_has_a_go_package(tmp_path: Path) -> None:
    app = App(service="shop.v1.Prices")

    @app.model
    def price(article: int) -> float: ...

    files = compiled(published_files(typed(app)), tmp_path)
    assert {name: found.file[0].options.go_package for name, found in files.items()} == {
        "dataplane.proto": "inferstream/inference",
        "grpc_service.proto": "inferstream/inference",
        "requests.proto": "inferstream/control",
        "grpc/health/v1/health.proto": "google.golang.org/grpc/health/grpc_health_v1",
        "grpc/reflection/v1/reflection.proto": "google.golang.org/grpc/reflection/grpc_reflection_v1",
        "grpc/reflection/v1alpha/reflection.proto": "google.golang.org/grpc/reflection/grpc_reflection_v1alpha",
        "shop.v1.proto": "inferstream/shop/v1",
    }


def test_dialects_differ_only_in_the_stream_response(tmp_path: Path) -> None:
    [ours], [tritons] = (found.file for found in [*compiled(published_files(), tmp_path).values()][:2])
    responses = []
    for described in (ours, tritons):
        [stream] = [each for each in described.service[0].method if each.name == "ModelStreamInfer"]
        responses.append(stream.output_type)
        stream.output_type = described.name = ""
    assert responses == [".inference.ModelInferResponse", ".inference.ModelStreamInferResponse"]
    assert ours == tritons
    assert "Send the metadata\n  // `x-stream-dialect: triton`" in published_files()[1].text


def test_typed_services_have_one_file_per_package(tmp_path: Path) -> None:
    one, two, other = App(), App(service="shop.v1.Prices"), App(service="shop.v1.Stock")

    @one.model
    async def words(prompt: str) -> AsyncIterator[str]:
        yield prompt

    @two.model
    def price(article: int) -> float: ...

    @other.model
    def count(article: int) -> int: ...

    found = [file for file in published_files(typed(one, two, other)) if file not in published_files()]
    assert {file.name: file.services for file in found} == {
        "inferstream.proto": ("inferstream.App",),
        "shop.v1.proto": ("shop.v1.Prices", "shop.v1.Stock"),
    }
    sets = compiled(found, tmp_path)
    [described] = sets["shop.v1.proto"].file
    methods = {service.name: [method.name for method in service.method] for service in described.service}
    assert methods == {"Prices": ["PredictPrice"], "Stock": ["PredictCount"]}


def test_first_of_two_conflicting_messages_is_published(tmp_path: Path) -> None:
    apps = App(), App()

    @apps[0].model("my-model")
    def first(a: int) -> int: ...

    @apps[1].model("my_model")
    def second(b: str) -> str: ...

    [found] = published_files(typed(*apps))[6:]
    assert "optional int64 a = 1;" in found.text
    compiled([found], tmp_path)
