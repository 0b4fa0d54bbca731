"""Whether each package of an image has a wheel for ARM. `make wheels-arm` runs it, because pip takes minutes."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NOT_IN_IMAGES = ("bench", "check", "docs", "protos", "ray", "test", "test-llm", "test-models")
NEED_TORCH = ("embeddings", "huggingface", "torch", "torchserve", "transformers")
NEED_COMPILER = ("llamacpp",)

pytestmark = pytest.mark.skipif("WHEELS_ARM" not in os.environ, reason="`make wheels-arm` runs it")


def test_packages_have_wheels_for_arm(tmp_path: Path) -> None:
    """Extras with torch are left out, because their metadata takes minutes, and llamacpp has only a source."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    chosen = [name for name in extras if name not in (*NOT_IN_IMAGES, *NEED_TORCH, *NEED_COMPILER)]
    assert {"tracing", "sklearn", "onnx", "kafka"} < {*chosen}
    lines = [*project["dependencies"], *(line for name in chosen for line in extras[name])]
    (tmp_path / "requirements.txt").write_text("\n".join(lines))
    tags = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 37))]  # Debian 12 has glibc 2.36
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    asked += [*(f"--platform={tag}_aarch64" for tag in tags), "--python-version=3.11", "--only-binary=:all:"]
    asked += ["--constraint", str(ROOT / "constraints.txt"), "--requirement", "requirements.txt"]
    asked += ["--target", "target", "--report", "report.json"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wheels = [
        each["download_info"]["url"] for each in json.loads((tmp_path / "report.json").read_text())["install"]
    ]
    assert any("numpy" in wheel and "aarch64" in wheel for wheel in wheels)
    assert not [wheel for wheel in wheels if not wheel.endswith(("-none-any.whl", "aarch64.whl"))]
