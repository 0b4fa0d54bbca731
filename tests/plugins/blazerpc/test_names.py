"""BlazeRPC's names: every one is there, and no other."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferstream.errors import Unsupported
from inferstream.ext.hosting import install_aliases
from inferstream.plugins.blazerpc.names import MODULES
from tests.aliases import is_replaced

install_aliases()


NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("blazerpc_names.json").read_text())
"""Every public name of every module of BlazeRPC 2.2.1, as its wheel defines them."""


LIBRARIES = {
    "blazerpc.contrib.pytorch": "torch",
    "blazerpc.contrib.tensorflow": "tensorflow",
    "blazerpc.contrib.onnx": "onnxruntime",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_exists(module: str) -> None:
    if module in LIBRARIES:
        pytest.importorskip(LIBRARIES[module])
    found = importlib.import_module(module)
    for name in NAMES[module]:
        assert hasattr(found, name), f"{module}.{name}"


def test_table_lists_all_modules() -> None:
    assert {*MODULES} == {*NAMES} | {"grpclib", "grpclib.const", "grpclib.events", "grpclib.exceptions"}


def test_unsupported_name_suggests_replacement() -> None:
    from blazerpc.codegen.servicer import InferenceServicer  # type: ignore[import-not-found]

    assert is_replaced(InferenceServicer)
    with pytest.raises(Unsupported, match=r"is a part of BlazeRPC .*: `inferstream\.testing\.run\(app\)`"):
        InferenceServicer(None)


def test_installed_package_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "blazerpc.py").write_text("real = True")
    (tmp_path / "grpclib.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "import blazerpc, grpclib; assert blazerpc.real and grpclib.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_unsupported_names_are_listed_with_replacement() -> None:
    section = (Path(__file__).parents[3] / "docs" / "blazerpc.md").read_text()
    section = section.partition("## Names without an implementation")[2]
    documented = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, _, sentence = line.strip("| ").partition(" | ")
            documented |= dict.fromkeys(names.strip("`").split("`, `"), sentence)
    replaced = {}
    for module in NAMES:
        if module not in LIBRARIES:
            found = vars(importlib.import_module(module)).values()
            kinds = [each for each in found if is_replaced(each)]
            replaced |= {kind.__name__: kind.instead for kind in kinds}
    assert documented == replaced
