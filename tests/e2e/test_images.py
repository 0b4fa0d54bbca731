"""What a Dockerfile installs: each of its instructions is executed where there is no Docker, below another root."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import joblib
import pytest
from dockerfile_parse import DockerfileParser
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from tests.programs import write_program
from tests.serving import SERVER

ROOT = Path(__file__).parents[2]

PLACES = re.compile(r"(?<![\w./])(?=/(?:opt|mnt|src|tmp|var|home|etc)\b)")
"""Where an instruction names a folder of the image."""

STUBS = ("useradd", "chown", "apt-get")
"""Programs that only root may run."""


class Image:
    """The stages of a Dockerfile below one root. A build argument that is not given has its default."""

    def __init__(self, context: Path, root: Path, **arguments: str) -> None:
        self.root, self.context = root, context
        self.variables = dict(arguments)
        self.folder = root
        self.ran: list[str] = []
        programs = root / "programs"
        programs.mkdir(parents=True)
        for name in STUBS:
            write_program(programs / name, "#!/bin/sh\n")
        base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
        (programs / "python").symlink_to(base)
        self.path = f"{programs}:/usr/bin:/bin"
        (root / "tmp").mkdir()
        self.build()

    def build(self) -> None:
        for step in DockerfileParser(str(self.context)).structure:
            match step["instruction"], step["value"]:
                case "ARG", value:
                    name, _, default = value.partition("=")
                    self.variables.setdefault(name, default)
                case "RUN", value:
                    self.run(value)
                case "COPY", value if not value.startswith("--from"):
                    self.copy([word for word in shlex.split(value) if not word.startswith("--")])
                case "WORKDIR", value:
                    self.folder = Path(self.below(value))
                    self.folder.mkdir(parents=True, exist_ok=True)

    def below(self, text: str) -> str:
        return PLACES.sub(str(self.root), text)

    def run(self, command: str) -> None:
        arguments = {name: self.below(value) for name, value in self.variables.items()}
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP"))}
        done = subprocess.run(
            ["/bin/sh", "-c", self.below(command)],
            cwd=self.folder,
            env={"PATH": self.path, "HOME": str(self.root), **pip, **arguments},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        self.ran.append(command)

    def copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            there, here = self.context / source, self.folder / self.below(target)
            if not there.is_dir():
                shutil.copy(there, here)
            elif source == ".":
                shutil.copytree(there, self.folder, dirs_exist_ok=True)
            else:
                shutil.copytree(there, here, ignore=shutil.ignore_patterns("__pycache__"))


def installed(python: Path, code: str) -> str:
    """What the code prints in an environment that sees nothing of this one."""
    ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def packages(file: Path) -> set[str]:
    """The packages in a list of CycloneDX."""
    document = json.loads(file.read_text())
    assert document["bomFormat"] == "CycloneDX"
    return {each["name"].lower() for each in document["components"]}


PRINTS = (
    "import inferstream, {extra}; print(inferstream.__version__, inferstream.__file__, {extra}.__version__)"
)


@pytest.fixture(scope="module", autouse=True)
def index() -> None:
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "anyio"]
    if subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("pip finds no index")


def test_bare_artefact_image_has_its_runtime(tmp_path: Path) -> None:
    folder = tmp_path / "iris"
    folder.mkdir()
    joblib.dump(LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True)), folder / "model.joblib")
    assert subprocess.run([*SERVER, "dockerfile", str(folder)], check=False).returncode == 0
    image = Image(folder, tmp_path / "root")
    assert len(image.ran) == 6
    environment = tmp_path / "root/opt/mlserver/envs/base"
    assert str(environment) in installed(environment / "bin/python", PRINTS.format(extra="sklearn"))
    assert {"inferstream", "scikit-learn", "opentelemetry-sdk"} <= packages(environment / "sbom.cdx.json")
    listed = subprocess.run(
        [environment / "bin/server", "models", "--import", str(tmp_path / "root/opt/mlserver")],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "MLSERVER_MODEL_NAME": "iris"},
    )
    assert (listed.returncode, "iris" in listed.stdout) == (0, True), listed.stdout + listed.stderr


def test_repository_image_accepts_extras(tmp_path: Path) -> None:
    image = Image(ROOT, tmp_path / "root", EXTRAS="chat")
    assert len(image.ran) == 4
    environment = tmp_path / "root/opt/inferstream"
    assert str(environment) in installed(environment / "bin/python", PRINTS.format(extra="jinja2"))
    assert (environment / "bin/mlserver").exists()
    listed = packages(environment / "sbom.cdx.json")
    assert {"inferstream", "jinja2", "opentelemetry-sdk"} <= listed
    assert "cyclonedx-bom" not in listed
