"""Promises about the house itself."""

import ast
import subprocess
import sys
from pathlib import Path

from inferstream.errors import Code
from inferstream.server.grpc.statuses import StatusCode
from inferstream.statuses import TABLE


def test_package_import_is_light() -> None:
    heavy = "fastapi grpc pandas sklearn torch opentelemetry uvicorn websockets"
    code = f"import sys, inferstream.model; print([m for m in {heavy.split()} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_every_error_code_has_a_status_on_every_transport() -> None:
    assert set(TABLE) == set(Code)
    for status in TABLE.values():
        assert StatusCode[status.grpc] is not StatusCode.UNKNOWN
        assert 400 <= status.http < 600


def test_exported_names_exist() -> None:
    import inferstream

    for name in inferstream.__all__:
        assert getattr(inferstream, name) is not None


def test_settings_reference_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "scripts"))
    try:
        import settings_reference
    finally:
        sys.path.pop(0)
    assert settings_reference.TARGET.read_text() == settings_reference.render(), "run `make settings`"


def test_metrics_reference_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "scripts"))
    try:
        import metrics_reference
    finally:
        sys.path.pop(0)
    assert metrics_reference.TARGET.read_text() == metrics_reference.render(), "run `make metrics`"


def test_grpc_package_is_typed_without_any() -> None:
    """Neither a signature nor anything else there names it: the messages have types of their own."""
    files = sorted((Path(__file__).parents[2] / "inferstream" / "server" / "grpc").rglob("*.py"))
    assert len(files) > 10
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            named = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name", ast.Constant: "value"}
            if getattr(node, named.get(type(node), ""), None) == "Any":
                found.append(f"{file.name}:{node.lineno}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                untyped = [each.arg for each in arguments if each.annotation is None and each.arg != "self"]
                found += [f"{file.name}:{node.lineno} {name}" for name in untyped if name != "cls"]
    assert found == []


def test_the_command_line_is_described_by_its_help() -> None:
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "scripts"))
    try:
        import cli_reference
    finally:
        sys.path.pop(0)
    assert cli_reference.TARGET.read_text() == cli_reference.render(), "run `make settings`"
    assert len(cli_reference.INTRODUCTION.split()) <= 300
