"""The tests under each Python that is allowed, with the newest dependencies, and with the oldest ones of the core.

Each combination has an environment of its own below .venv/matrix, made without constraints.txt. A Python that is not
installed is named; the end is an error unless each combination has passed. uv chooses the versions: pip tries older and
older ones, down to those without wheels, which it builds.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venv/matrix"
UV = ROOT / ".venv/tools/bin/uv"
COMBINATIONS = {"3.11": ("newest", "lowest"), "3.12": ("newest",), "3.13": ("newest",)}
"""The oldest dependencies have no wheels for newer Pythons."""

CLIENTS = "tritonclient[grpc,http]<2.72"
"""Triton's later clients need a newer protobuf than the oldest."""

CLAIMS = "grpcio>=1.71"
"""What clients of Triton say that they cannot use, and use."""

TESTS = ["tests/unit", "tests/plugins", "tests/contract", "tests/wire"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--python", choices=COMBINATIONS, help="this Python alone")
    options.add_argument("--dependencies", choices=["newest", "lowest"], help="these dependencies alone")
    options.add_argument("tests", nargs="*", default=TESTS, help="tests to run: %(default)s")
    given = options.parse_args()
    table = Table("Python", "dependencies", "result")
    passed: list[bool] = []
    for version, resolutions in COMBINATIONS.items():
        for resolution in resolutions:
            if given.python in (None, version) and given.dependencies in (None, resolution):
                result = _run(version, resolution, given.tests)
                passed.append(result.startswith("passed"))
                table.add_row(version, resolution, result)
    Console().print(table)
    sys.exit(0 if passed and all(passed) else 1)


def _run(version: str, resolution: str, tests: list[str]) -> str:
    """Install and test one combination; how it ended, in words."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        return f"not run: there is no python{version}"
    environment = ENVIRONMENTS / f"{version}-{resolution}"
    subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
    inside = environment / "bin/python"
    install = [UV, "pip", "install", "--quiet", "--python", inside]
    extras = f"{ROOT}[test,sklearn,pandas,protos]"
    if resolution == "lowest":
        lowest, claims = environment / "lowest.txt", environment / "claims.txt"
        lowest.write_text("\n".join([*_floors(), CLIENTS]))
        claims.write_text(CLAIMS)
        install += ["-c", lowest, "--override", claims]
    if subprocess.run([*install, "-e", extras], cwd=ROOT).returncode:
        return "failed: uv"
    command = [inside, "-m", "pytest", "-n", "2", *tests]
    if resolution == "lowest":
        # What is old uses what is newer in ways that are deprecated by now, and its bytes are not those of the corpus:
        # 1e30 for 1e+30.
        command += ["-W", "ignore::DeprecationWarning", "--ignore", "tests/wire"]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = ran.stdout.splitlines()
    print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))))
    counts = next(
        (line.strip("= ") for line in reversed(lines) if re.search(r"\d+ passed", line)), "no test ran"
    )
    return f"{'failed' if ran.returncode else 'passed'}: {counts}"


def _floors() -> list[str]:
    """The oldest allowed version of each dependency of the core."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [re.sub(r">=([^,;]+).*", r"==\1", each) for each in dependencies]


if __name__ == "__main__":
    main()
