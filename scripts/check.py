"""Checks one file of the package: its form, its types, the layers, and the unit tests that it has."""

import argparse
import subprocess
import sys
from pathlib import Path

from .house.mirrors import ROOTS, mirror

PACKAGE = Path("inferstream")


def unit_tests(file: Path) -> list[Path]:
    """The tests at the mirrored place, or those that name the module if there are none."""
    mirrored = mirror(file.relative_to(PACKAGE).as_posix())
    if mirrored.is_file():
        return [mirrored]
    module = ".".join(file.with_suffix("").parts)
    return [test for root in ROOTS for test in sorted(root.rglob("test_*.py")) if module in test.read_text()]


def commands(file: Path) -> list[list[str]]:
    checks = [["ruff", "format", "--check", str(file)], ["ruff", "check", str(file)]]
    if not file.is_relative_to(PACKAGE):
        return [*checks, ["pytest", str(file)]]
    checks += [["mypy", str(file)], ["lint-imports"]]
    if tests := unit_tests(file):
        return [*checks, ["pytest", *map(str, tests)]]
    print(f"{file} has no {mirror(file.relative_to(PACKAGE).as_posix())}, and no unit test names it.")
    return checks


def main() -> int:
    parser = argparse.ArgumentParser(prog="make check", usage="make check FILE=inferstream/...py")
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    if not file.is_file():
        parser.error(f"there is no file {file}")
    programs = Path(sys.executable).parent
    for program, *arguments in commands(file):
        print("$", program, *arguments, flush=True)
        if failed := subprocess.run([programs / program, *arguments]).returncode:
            return failed
    return 0


if __name__ == "__main__":
    sys.exit(main())
