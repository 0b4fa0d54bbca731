"""BlazeRPC's names: every one is there, and no other."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferstream import compat
from inferstream.compat.blazerpc_names import MODULES
from inferstream.compat.finder import Replaced
from inferstream.errors import Unsupported

compat.install()


NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("blazerpc_names.json").read_text())
"""Every public name of every module of BlazeRPC 2.2.1, as its wheel defines them."""


LIBRARIES = {
    "blazerpc.contrib.pytorch": "torch",
    "blazerpc.contrib.tensorflow": "tensorflow",
    "blazerpc.contrib.onnx": "onnxruntime",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module: str) -> None:
    if module in LIBRARIES:
        pytest.importorskip(LIBRARIES[module])
    found = importlib.import_module(module)
    for name in NAMES[module]:
        assert hasattr(found, name), f"{module}.{name}"


def test_the_table_has_no_other_module() -> None:
    assert {*MODULES} == {*NAMES} | {"grpclib", "grpclib.const", "grpclib.events", "grpclib.exceptions"}


def test_what_cannot_be_used_says_what_to_use_instead() -> None:
    from blazerpc.codegen.servicer import InferenceServicer  # type: ignore[import-not-found]

    assert issubclass(InferenceServicer, Replaced)
    with pytest.raises(Unsupported, match=r"is a part of BlazeRPC .*: `inferstream\.testing\.run\(app\)`"):
        InferenceServicer(None)


def test_an_installed_package_wins(tmp_path: Path) -> None:
    (tmp_path / "blazerpc.py").write_text("real = True")
    (tmp_path / "grpclib.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import blazerpc, grpclib; assert blazerpc.real and grpclib.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_cannot_be_used_is_listed_with_what_to_use_instead() -> None:
    section = (Path(__file__).parents[3] / "docs" / "blazerpc.md").read_text()
    section = section.partition("## What can be imported and not used")[2]
    documented = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, _, sentence = line.strip("| ").partition(" | ")
            documented |= dict.fromkeys(names.strip("`").split("`, `"), sentence)
    replaced = {}
    for module in NAMES:
        if module not in LIBRARIES:
            found = vars(importlib.import_module(module)).values()
            kinds = [each for each in found if isinstance(each, type) and issubclass(each, Replaced)]
            replaced |= {kind.__name__: kind.instead for kind in kinds}
    assert documented == replaced
