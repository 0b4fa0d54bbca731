"""TorchServe's names: every one is there, or says what to use instead."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from inferstream import compat
from inferstream.compat.finder import Replaced
from inferstream.compat.torchserve_names import MODULES
from inferstream.errors import Unsupported

compat.install()

OF_IMAGES = ("ts.torch_handler.image_classifier", "ts.torch_handler.vision_handler")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module: str) -> None:
    if module in OF_IMAGES:
        pytest.importorskip("torchvision")
    imported = importlib.import_module(module)
    for name in MODULES[module]:
        value = getattr(imported, name)
        if isinstance(value, type) and issubclass(value, Replaced):
            with pytest.raises(Unsupported, match=f"{name} is a part of TorchServe"):
                value()


def test_the_stock_handler_of_images_says_what_it_needs() -> None:
    code = (
        "import sys; sys.modules['torchvision'] = None\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import ts.torch_handler.image_classifier"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    assert 'pip install "inferstream[torchserve]"' in run.stderr


def test_an_installed_package_wins(tmp_path: Path) -> None:
    (tmp_path / "ts.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import ts; assert ts.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_cannot_be_used_is_listed_with_what_to_use_instead() -> None:
    page = (Path(__file__).parents[3] / "docs" / "torchserve.md").read_text()
    for module, names in MODULES.items():
        for name, target in names.items():
            if not isinstance(target, str):
                assert f"`{module}.{name}`" in page, f"{module}.{name}"
                assert target[0] in page, name
