"""What a start does not import, because most servers never need it."""

import subprocess
import sys

LATE = {
    "fastapi",
    "starlette",
    "rich",
    "msgspec",
    "tarfile",
    "httpx",
    "pandas",
    "pydantic_settings",
    "jsonschema",
}


def test_a_start_imports_nothing_that_most_servers_never_use() -> None:
    code = "import sys, inferstream.cli.start, inferstream.server.server; print(*sys.modules, sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert LATE.isdisjoint(ran.stdout.splitlines())
