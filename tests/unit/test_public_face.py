"""The names that a program imports from the package itself."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import inferstream

MODULES = ("codecs", "errors", "testing", "types")


@pytest.mark.parametrize("name", [*inferstream._HOMES])
def test_public_name_is_the_object_of_its_home_module(name: str) -> None:
    home = import_module(f"inferstream.{inferstream._HOMES[name]}")
    assert getattr(inferstream, name) is getattr(home, name)
    assert inspect.getdoc(getattr(inferstream, name))


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(inferstream))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    nodes = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in nodes for alias in node.names}
    assert imported == {*inferstream._HOMES, *MODULES}
    assert {*inferstream.__all__} == imported - {"PandasCodec"}


def test_import_is_lazy_and_light() -> None:
    names = "MLModel, InferenceRequest, InferenceResponse, RequestInput, ResponseOutput, NumpyCodec, "
    names += "StringCodec, ModelError, decode_args"
    heavy = "fastapi grpc pandas uvicorn websockets prometheus_client inferstream.server"
    code = f"import sys\nfrom inferstream import {names}\nprint([m for m in {heavy.split()} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        inferstream.nothing  # noqa: B018
