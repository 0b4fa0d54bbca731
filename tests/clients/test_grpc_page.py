"""The commands of docs/grpc-clients.md: clients in Node, Go and Java, made of the .proto files of the server.

GRPC_CLIENTS names the folder of `make grpc-clients`: `node`, where npm has installed @grpc/grpc-js and
@grpc/proto-loader, and `protoc-gen-go` of the Go packages at GO_PATH. protoc, its plugin for Java and grpc-java are the
system's. A language that is missing is skipped, and the reason says so.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of
from tests.docs.sandbox import ROOT, Sandbox

FOLDER = Path(os.environ.get("GRPC_CLIENTS", "nowhere")).resolve()
GO_PATH = Path(os.environ.get("GO_PATH", "/usr/share/gocode"))
PAGE = ROOT / "docs" / "grpc-clients.md"
NODE = FOLDER / "node" / "node_modules"

PROTOC = re.compile(r"\$ protoc --go_out.*\n")
"""The command for plugins of today; that of Debian takes other options, and has no modules."""

pytestmark = pytest.mark.skipif("GRPC_CLIENTS" not in os.environ, reason="`make grpc-clients` runs them")

NEEDED = {
    "node": shutil.which("node") is not None and (NODE / "@grpc" / "proto-loader").is_dir(),
    "go": shutil.which("go") is not None and (FOLDER / "protoc-gen-go").is_file() and shutil.which("protoc"),
    "java": shutil.which("javac") is not None
    and all(
        Path(f"/usr/share/java/{name}.jar").is_file()
        for name in ("grpc-stub", "netty-all", "protobuf", "perfmark-api")
    )
    and shutil.which("grpc_java_plugin")
    and shutil.which("protoc"),
}


@pytest.mark.parametrize("language", NEEDED)
def test_commands_of_language(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not NEEDED[language]:
        pytest.skip(f"what {language} needs is missing")
    folder = tmp_path / "clean"
    folder.mkdir()
    shutil.copytree(ROOT / "examples" / "clients", folder / "examples" / "clients")
    blocks = blocks_of(PAGE)
    app = [block for block in blocks if "not run" not in block.said]
    [block] = [block for block in blocks if f"/{language}\n" in block.text]
    text = block.text.replace("cd ../", "cd examples/clients/")
    if language == "go":
        text = PROTOC.sub(
            "$ mkdir inference && protoc --go_out=plugins=grpc,paths=source_relative:inference dataplane.proto\n",
            text,
        )
        (folder / "src").mkdir()
        (folder / "src" / "example").symlink_to(folder / "examples" / "clients" / "go")
        monkeypatch.setenv("GO111MODULE", "off")
        monkeypatch.setenv("GOPATH", f"{folder}:{GO_PATH}")
    monkeypatch.setenv("PATH", f"{FOLDER}:{os.environ['PATH']}")
    sandbox = Sandbox(folder, str(PAGE.relative_to(ROOT)))
    try:
        for each in app:
            sandbox.run(each)
        if language == "node":
            (folder / "examples" / "clients" / "node" / "node_modules").symlink_to(NODE)
        sandbox.run(Block(block.line, block.language, text, {}))
    finally:
        sandbox.stop()
