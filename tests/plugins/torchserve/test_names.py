"""TorchServe's names: every one is there, or says what to use instead."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from inferstream.errors import Unsupported
from inferstream.ext.hosting import install_aliases
from inferstream.plugins.torchserve.names import MODULES
from tests.aliases import is_replaced

install_aliases()

OF_IMAGES = ("ts.torch_handler.image_classifier", "ts.torch_handler.vision_handler")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_exists(module: str) -> None:
    if module in OF_IMAGES:
        pytest.importorskip("torchvision")
    imported = importlib.import_module(module)
    for name in MODULES[module]:
        value = getattr(imported, name)
        if is_replaced(value):
            with pytest.raises(Unsupported, match=f"{name} is a part of TorchServe"):
                value()


def test_image_handler_names_its_requirements() -> None:
    code = (
        "import sys; sys.modules['torchvision'] = None\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "import ts.torch_handler.image_classifier"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    assert 'pip install "pillow>=' in run.stderr


def test_installed_package_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "ts.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "import ts; assert ts.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_unsupported_names_are_listed_with_replacement() -> None:
    page = (Path(__file__).parents[3] / "docs" / "torchserve.md").read_text()
    for module, names in MODULES.items():
        for name, target in names.items():
            if not isinstance(target, str):
                assert f"`{module}.{name}`" in page, f"{module}.{name}"
                assert target[0] in page, name
