"""The `.proto` file of an app is one that protoc accepts, and says what the server's descriptors say."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from inferstream import App, TensorInput, TensorOutput
from inferstream.protos.typed import Method, build_method
from inferstream.protos.typed_files import build_file
from inferstream.protos.typed_text import write_proto

Rows = TensorInput[np.float32, "batch", 3]
Sums = TensorOutput[np.float32, "batch"]


def methods_of(app: App) -> list[Method]:
    found = [build_method(function.name, function.signature()) for function in app]
    return sorted(filter(None, found), key=lambda method: method.name)


def example(**options: object) -> App:
    app = App(**options)

    @app.model
    def add(a: int, b: int = 1) -> int:
        """Adds two numbers.

        */ With "quotes", \\ and a NUL: \x00.
        """

    @app.model
    def everything(
        a_b: str, aB: bytes, größe: float | None, kind: Literal["a", 'b"'] = "a", more: dict | None = None
    ) -> tuple[str, list[int]]: ...

    @app.model("my-array")
    def arrays(x: Rows) -> Sums: ...

    @app.model
    def words(text: str) -> Iterator[str]: ...

    @app.model
    async def both(numbers: AsyncIterator[int], start: int = 0) -> AsyncIterator[int]: ...

    @app.model
    async def total(numbers: AsyncIterator[int]) -> int: ...

    @app.model
    def nothing() -> None: ...

    # Words of protobuf's own.
    @app.model
    def message(message: str, optional: int, reserved: list[int], string: bool = True) -> str: ...

    return app


def compiled(text: str, folder: Path) -> FileDescriptorProto:
    """The file as protoc reads it."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    (folder / "x.proto").write_text(text)
    assert (
        protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={folder}/x.binpb", f"{folder}/x.proto"])
        == 0
    )
    [file] = FileDescriptorSet.FromString((folder / "x.binpb").read_bytes()).file
    return file


@pytest.mark.parametrize(
    "app",
    [example(), example(service="Alone"), example(service="a.b.C", classic=True)],
    ids=lambda app: app.service,
)
def test_protoc_output_matches_the_server_descriptors(app: App, tmp_path: Path) -> None:
    methods = methods_of(app)
    file = compiled(write_proto(methods, {}, "Title."), tmp_path)
    described = build_file(methods)
    for each in (file, described):
        each.name = ""
        for message in each.message_type:
            for field in message.field:
                field.ClearField("json_name")
        each.message_type.sort(key=lambda message: message.name)
    assert file == described


def test_removed_arguments_are_reserved(tmp_path: Path) -> None:
    text = write_proto(methods_of(example()), {"add": {"old": 7, "older": 4}}, "Title.")
    assert '  reserved 4, 7;\n  reserved "old", "older";\n' in text
    [message] = [each for each in compiled(text, tmp_path).message_type if each.name == "AddRequest"]
    assert [*message.reserved_name] == ["old", "older"]
    assert [(each.start, each.end) for each in message.reserved_range] == [(4, 5), (7, 8)]


def test_comments_explain_the_fields_to_clients() -> None:
    text = write_proto(methods_of(example()), {}, "Title.")
    assert text.startswith('// Title.\nsyntax = "proto3";\n\npackage inferstream;\n')
    assert "  // Adds two numbers.\n" in text
    assert re.search(r"  // Default: 1\n  optional int64 b = 2;", text)
    assert re.search(r'  // One of "a", "b\\"".\n  // Default: "a"\n  optional string kind = 4;', text)
    assert re.search(
        r"  // JSON.\n  // JSON schema: {.*}\n  // Default: null\n  optional string more = 5;", text
    )
    assert '  // dtype "float", shape [batch, 3].\n  TensorProto x = 1;' in text
    assert "  // Requests after the first hold this field alone.\n  optional int64 numbers" in text
    assert "message NothingRequest {}" in text
