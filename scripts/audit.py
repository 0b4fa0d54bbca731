"""Audits what the tests run with: hashes, known vulnerabilities, licences, and a list of it all as CycloneDX.

A part that could not run has failed. `--hashes` writes constraints.hashes.txt from constraints.txt and ends.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / ".venv/tools/bin"
SBOM = ROOT / ".venv/tools/sbom.json"
PINNED, HASHED = ROOT / "constraints.txt", ROOT / "constraints.hashes.txt"

ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0",
    "PSF-2.0", "Python-2.0", "ZPL-2.1", "Zlib",
    "Apache Software License", "BSD License", "Mozilla Public License 2.0 (MPL 2.0)",
}  # fmt: skip
"""Licences under which a dependency may be: SPDX's names, and those of PyPI's classifiers."""

IN_A_FILE = {"protobuf": "BSD-3-Clause", "pysimdjson": "MIT", "python-rapidjson": "MIT"}
"""Licences of packages whose metadata names none that SPDX knows."""

OF_THE_CHECKOUT = {"bench", "docs", "protos"}
"""Extras for development. Extras of tests are pinned."""

ACCEPTED = {
    "CVE-2026-4372": "transformers 4.56 to 5.2 with the package kernels: files without trust that name one are refused",
    "CVE-2026-1839": "transformers below 5: its Trainer, which nothing here uses",
}
"""Advisories of lowest versions that do not affect the server. transformers 5 lacks pipelines of version 4."""

Component = dict[str, object]


class Failed(Exception):
    """A part of the audit has failed, or could not run."""


def run(*command: str | Path) -> str:
    """What a tool prints; the end of its complaint, if it fails."""
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError as error:
        raise Failed(f"{command[0]} could not run: {error.strerror}") from None
    if ran.returncode:
        raise Failed("\n".join((ran.stderr.strip() or ran.stdout.strip()).splitlines()[-20:]))
    return ran.stdout


def write_hashes(tools: Path) -> str:
    compile = [tools / "uv", "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate"]
    run(*compile, "--generate-hashes", "--python", sys.executable, PINNED, "--output-file", HASHED)
    return f"{HASHED.name} written"


def versions(path: Path) -> set[str]:
    """Names, as indexes write them, and versions that a file of requirements pins."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.M)
    return {f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}" for name, version in pinned}


def hashes(tools: Path) -> str:
    """Whether each pinned version has hashes, and what the index serves for this machine has one of them."""
    if difference := versions(PINNED) ^ versions(HASHED):
        raise Failed(f"{HASHED.name} is not of {PINNED.name}: {sorted(difference)}; make hashes writes it")
    with tempfile.TemporaryDirectory() as folder:
        install = [tools / "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        run(*install, "--python", sys.executable, "--target", folder, "-r", HASHED)
    return f"{len(versions(HASHED))} packages are what they were"


def vulnerabilities(tools: Path) -> str:
    # Without --strict a package that the database does not have passes.
    audit = [
        tools / "pip-audit",
        "--strict",
        "--require-hashes",
        "--disable-pip",
        "--progress-spinner",
        "off",
    ]
    run(*audit, "--requirement", HASHED)
    return "none known"


def lowest(tools: Path) -> str:
    """Known vulnerabilities of the oldest versions that each extra allows, as `make matrix` installs them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    served = [name for name in extras if not name.startswith("test") and name not in OF_THE_CHECKOUT]
    ignored = [part for advisory in ACCEPTED for part in ("--ignore-vuln", advisory)]
    with tempfile.TemporaryDirectory() as folder:
        for extra in ("", *served):
            resolved = Path(folder) / f"{extra or 'core'}.txt"
            compile = [
                tools / "uv",
                "pip",
                "compile",
                "--quiet",
                "--resolution",
                "lowest-direct",
                "--no-header",
            ]
            chosen = ["--extra", extra] if extra else []
            run(*compile, "--python", sys.executable, *chosen, "pyproject.toml", "--output-file", resolved)
            audit = [
                tools / "pip-audit",
                "--strict",
                "--no-deps",
                "--disable-pip",
                "--progress-spinner",
                "off",
            ]
            run(*audit, *ignored, "--requirement", resolved)
    return f"none known but {', '.join(ACCEPTED)} in {len(served) + 1} sets"


def components(tools: Path) -> list[Component]:
    """What is installed, written into the list of parts and read from it."""
    environment = [
        tools / "cyclonedx-py",
        "environment",
        "--output-reproducible",
        "--pyproject",
        "pyproject.toml",
    ]
    run(*environment, "--output-file", SBOM, sys.executable)
    read: list[Component] = json.loads(SBOM.read_text())["components"]
    return read


def parts(tools: Path) -> str:
    return f"{len(components(tools))} components in {SBOM.relative_to(ROOT)}"


def licences(tools: Path) -> str:
    every = components(tools)
    if wrong := [f"{each['name']}: {', '.join(refused(each))}" for each in every if refused(each)]:
        raise Failed("not on the list of licences: " + "; ".join(wrong))
    return f"{len(every)} components have licences of the list"


def refused(component: Component) -> list[str]:
    """Licences of a component that are not on the list, all that it names counted."""
    named = component.get("licenses") or [{"expression": IN_A_FILE.get(str(component["name"]), "no licence")}]
    texts = []
    for each in named:
        licence = each.get("license", {})
        texts += (
            [licence["name"]]
            if "name" in licence
            else re.split(r" AND | OR |[()]", each.get("expression") or licence["id"])
        )
    texts = [text.removeprefix("License :: OSI Approved :: ").strip() for text in texts]
    return [text for text in texts if text and text not in ALLOWED]


PARTS: dict[str, Callable[[Path], str]] = {
    "hashes": hashes,
    "vulnerabilities": vulnerabilities,
    "vulnerabilities of the lowest versions": lowest,
    "licences": licences,
    "SBOM": parts,
}


def main(arguments: list[str] | None = None, tools: Path = TOOLS) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hashes", action="store_true", help="write constraints.hashes.txt and end")
    asked = {"hashes written": write_hashes} if options.parse_args(arguments).hashes else PARTS
    table = Table("part", "", "")
    failed = False
    for name, part in asked.items():
        try:
            table.add_row(name, "passed", part(tools))
        except Failed as error:
            failed = True
            table.add_row(name, "failed", str(error))
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
