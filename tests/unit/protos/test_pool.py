"""The messages of gRPC beside those of other packages."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from google.protobuf import __version__ as protobuf

HERE = Path(__file__).parents[3] / "inferstream" / "protos"
ORCA = HERE.parent / "plugins" / "kubernetes" / "protos"


@pytest.mark.parametrize(
    "theirs", ["tritonclient.grpc", "grpc_health.v1.health_pb2, grpc_reflection.v1alpha.reflection"]
)
@pytest.mark.parametrize("order", ["{ours}, {theirs}", "{theirs}, {ours}"])
def test_foreign_protos_coexist_in_the_same_process(order: str, theirs: str) -> None:
    code = "import " + order.format(ours="inferstream.server.grpc.grpcio.handlers", theirs=theirs)
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


STANDARD = [
    f"grpc/{name}.proto"
    for name in ("health/v1/health", "reflection/v1/reflection", "reflection/v1alpha/reflection")
]


@pytest.mark.parametrize(
    ("compiled", "folder", "sources"),
    [
        ("dataplane.binpb", HERE, ["dataplane.proto"]),
        ("requests.binpb", HERE, ["requests.proto"]),
        ("standard.binpb", HERE / "standard", STANDARD),
        (str(ORCA / "orca.binpb"), ORCA, ["xds/service/orca/v3/orca.proto"]),
    ],
)
def test_every_descriptor_set_matches_its_protos(
    tmp_path: Path, compiled: str, folder: Path, sources: list[str]
) -> None:
    out = tmp_path / "out.binpb"
    command = ["-m", "grpc_tools.protoc", "-I", str(folder), "--include_imports", *sources]
    subprocess.run([sys.executable, *command, f"--descriptor_set_out={out}"], check=True, timeout=60)
    assert out.read_bytes() == (HERE / compiled).read_bytes(), "run `make protos`"


STUBS = {
    "dataplane_pb2": ("", "dataplane.proto"),
    "health_pb2": ("standard/grpc/health/v1", "health.proto"),
    "requests_pb2": ("", "requests.proto"),
    "reflection_pb2": ("standard/grpc/reflection/v1", "reflection.proto"),
}


OLD = int(protobuf.split(".")[0]) < 6


@pytest.mark.skipif(OLD, reason="protobuf 5 writes stubs in another form")
@pytest.mark.parametrize("name", STUBS)
def test_every_stub_matches_its_proto(tmp_path: Path, name: str) -> None:
    folder, source = STUBS[name]
    command = ["-m", "grpc_tools.protoc", "-I", str(HERE / folder), f"--pyi_out={tmp_path}", source]
    subprocess.run([sys.executable, *command], check=True, timeout=60)
    written = (tmp_path / f"{name}.pyi").read_text()
    assert written == (HERE / f"{name}.pyi").read_text(), "run `make protos`"


@pytest.mark.parametrize("name", STUBS)
def test_every_module_matches_its_stub(name: str) -> None:
    stub = ast.parse((HERE / f"{name}.pyi").read_text())
    assert missing_of(stub.body, import_module(f"inferstream.protos.{name}")) == []


def missing_of(stub: list[ast.stmt], owner: object) -> list[str]:
    """The names that a stub has and its module or class has not; fields are there in messages alone."""
    found = owner() if isinstance(owner, type) else owner
    names = [ast.unparse(each.target) for each in stub if isinstance(each, ast.AnnAssign)]
    missing = [f"{owner}: {name}" for name in names if not hasattr(found, name)]
    for each in stub:
        # The entry of a map is a class for its descriptor alone.
        if isinstance(each, ast.ClassDef) and not each.name.endswith("Entry"):
            missing += missing_of(each.body, getattr(owner, each.name))
    return missing
