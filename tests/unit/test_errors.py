"""The tree of errors, their codes and their statuses."""

import ast
import re
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

PACKAGE = Path(inferstream.__file__).parent


def classes() -> list[tuple[str, str]]:
    """Each class with a base, and its first base, without those under other servers' names."""
    files = [file for file in PACKAGE.rglob("*.py") if "compat" not in file.parts]
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


def test_the_tree_atop_the_module_has_every_error() -> None:
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
def test_the_status_of_model_code_chooses_the_code(status: int, code: Code) -> None:
    error = ModelError("no", status)
    assert error.code is code
    assert own_status(error) == status


def test_a_message_has_no_lone_surrogate() -> None:
    assert InferstreamError("a\ud800b").message == "a?b"


def test_a_model_that_is_not_ready_has_the_status_of_its_code() -> None:
    assert own_status(ModelNotReady("m")) is None
    assert ModelNotReady("m", "2", failed=True).message == (
        "Model m with version 2 did not load; the server's log says why."
    )


def test_a_load_that_failed_has_a_status_if_its_cause_had_one() -> None:
    assert own_status(ModelLoadFailed("no")) is None
    assert own_status(ModelLoadFailed("no", 422)) == 422


def test_a_model_that_is_not_there_is_named() -> None:
    assert ModelNotFound("m", "2", known="it has version 1").message == (
        "Model m with version 2 not found; it has version 1"
    )


def test_a_codec_that_is_not_there_is_named() -> None:
    assert CodecNotFound("hg", is_input=True).message == "No codec found for input 'hg'."
    assert InputsNotFound((), {"a": int}).message == "The request has no input for: a (int)."


def test_a_failed_call_is_written_with_the_name_of_its_status() -> None:
    assert str(CallFailed("full", status=429)) == "429: full"
    assert str(CallFailed("full", status=429, status_name="RESOURCE_EXHAUSTED")) == "RESOURCE_EXHAUSTED: full"
    assert str(CallFailed("no connection")) == "no connection"
    assert CallFailed("no connection").status_name == ""


def test_a_missing_extra_says_how_to_install_it() -> None:
    missing = ModuleNotFoundError("No module named 'grpc'", name="grpc")
    said = MissingExtra("a client over gRPC", "grpc", missing).message
    assert said == 'a client over gRPC needs `pip install "inferstream[grpc]"`: grpc is not installed'
