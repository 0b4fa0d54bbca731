"""What a start does not import, because most servers never need it."""

import subprocess
import sys

LATE = {
    "fastapi",
    "starlette",
    "rich",
    "tarfile",
    "httpx",
    "pandas",
    "pydantic_settings",
    "jsonschema",
    "grpc",
}


PROCESSES = ", ".join(
    f"inferstream.{name}"
    for name in (
        "cli.start",
        "server.server",
        "server.rest.app",
        "server.worker",
        "server.frontends.front_end",
    )
)
"""What the server, a worker and a further front end import."""


def imported_by(modules: str) -> list[str]:
    code = f"import sys, {modules}; print(*sys.modules, sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.splitlines()


def test_startup_imports_no_rarely_used_modules() -> None:
    assert LATE.isdisjoint(imported_by("inferstream.cli.start, inferstream.server.server"))


def test_third_party_generated_modules_are_not_imported() -> None:
    """One that was generated for a newer protobuf than the installed one would refuse the start."""
    own = ("inferstream.", "google.protobuf.")  # protobuf's own modules come with it
    foreign = [name for name in imported_by(PROCESSES) if not name.startswith(own)]
    # grpc itself imports the empty packages grpc_health and grpc_reflection where they are installed.
    refused = ("grpc_health.", "grpc_reflection.")
    assert [
        name for name in foreign if name.endswith(("_pb2", "_pb2_grpc")) or name.startswith(refused)
    ] == []
