"""The tree of errors, their codes and their statuses."""

import ast
import re
from inspect import signature
from pathlib import Path

import pytest

import inferstream
from inferstream import errors
from inferstream.errors import (
    CallFailed,
    Code,
    CodecNotFound,
    InferstreamError,
    InputsNotFound,
    MissingExtra,
    ModelError,
    ModelLoadFailed,
    ModelNotFound,
    ModelNotReady,
    own_status,
)
from inferstream.server.status import status_of
from inferstream.statuses import Statuses

PACKAGE = Path(inferstream.__file__).parent


OTHER_SERVERS = {"blazerpc", "mlserver", "torchserve", "triton"}
"""Plug-ins whose errors have the names of another server."""


def classes() -> list[tuple[str, str]]:
    """Each class with a base, and its first base, without those under other servers' names."""
    files = [file for file in PACKAGE.rglob("*.py") if not OTHER_SERVERS.intersection(file.parts)]
    return [
        (node.name, ast.unparse(node.bases[0]))
        for file in sorted(files)
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.bases
    ]


def below(root: str, pairs: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The classes below one, each with its first base."""
    children = {(name, base) for name, base in pairs if base == root}
    return children.union(*(below(name, pairs) for name, _ in children))


def drawn() -> set[tuple[str, str]]:
    """The classes of the tree atop the module, each with the class that it stands under."""
    pairs = set()
    above = [""]
    for line in (errors.__doc__ or "").splitlines()[2:]:
        names = re.sub(r" \([^)]*\)", "", line).split(",")
        del above[1 + (len(line) - len(line.lstrip())) // 4 :]
        pairs |= {(name.strip(), above[-1]) for name in names}
        above.append(names[-1].strip())
    return pairs - {("InferstreamError", "")}


def test_error_tree_in_docstring_is_complete() -> None:
    assert drawn() == below("InferstreamError", classes())


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, Code.INVALID),
        (404, Code.NOT_FOUND),
        (409, Code.ALREADY_EXISTS),
        (418, Code.INVALID),
        (499, Code.INVALID),
        (503, Code.NOT_READY),
        (507, Code.INTERNAL),
    ],
)
def test_model_status_selects_the_error_code(status: int, code: Code) -> None:
    error = ModelError("no", status)
    assert error.code is code
    assert own_status(error) == status


def test_message_has_no_lone_surrogates() -> None:
    assert InferstreamError("a\ud800b").message == "a?b"


def test_unready_model_error_has_the_status_of_its_code() -> None:
    assert own_status(ModelNotReady("m")) is None
    assert ModelNotReady("m", "2", failed=True).message == (
        "Model m with version 2 did not load; the server's log says why."
    )


def test_failed_load_keeps_the_status_of_its_cause() -> None:
    assert own_status(ModelLoadFailed("no")) is None
    assert own_status(ModelLoadFailed("no", 422)) == 422


def test_missing_model_is_named() -> None:
    assert ModelNotFound("m", "2", known="it has version 1").message == (
        "Model m with version 2 not found; it has version 1"
    )


def test_missing_codec_is_named() -> None:
    assert CodecNotFound("hg", is_input=True).message == "No codec found for input 'hg'."
    assert InputsNotFound((), {"a": int}).message == "The request has no input for: a (int)."


def test_failed_call_string_has_its_status_name() -> None:
    assert str(CallFailed("full", status=429)) == "429: full"
    assert str(CallFailed("full", status=429, status_name="RESOURCE_EXHAUSTED")) == "RESOURCE_EXHAUSTED: full"
    assert str(CallFailed("no connection")) == "no connection"
    assert CallFailed("no connection").status_name == ""


def test_missing_extra_error_explains_installation() -> None:
    missing = ModuleNotFoundError("No module named 'grpc'", name="grpc")
    said = MissingExtra("a client over gRPC", "grpc", missing).message
    assert said == 'a client over gRPC needs grpc, which is not installed; hint: pip install "grpcio>=1.71"'


def test_error_page_lists_statuses_of_each_public_class() -> None:
    page = (
        (PACKAGE.parent / "docs" / "errors.md").read_text().partition("## Classes")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (`.*?) \| (\d+) \| (\w+) \|$", page, re.M)
    listed = {
        name: Statuses(int(http), grpc) for names, http, grpc in rows for name in re.findall(r"\w+", names)
    }
    for name, statuses in listed.items():
        kind = getattr(errors, name)
        parameters = [each for each in signature(kind).parameters.values() if each.default is each.empty]
        assert status_of(kind(*["x"] * len(parameters))) == statuses, name
    own = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    of_codecs = {"CodecNotFound", "InputsNotFound", "OutputNotFound", "InvalidModelURI"}
    elsewhere = {"CallFailed", "CallTimedOut", "ConnectionFailed", "InvalidSettings", "MissingExtra"}
    chosen = {"ModelError", "Refused"}
    assert own - {"InferstreamError"} == listed.keys() | of_codecs | elsewhere | chosen
