"""Promises about the house itself."""

import subprocess
import sys
from pathlib import Path

from inferstream.errors import Code
from inferstream.server.status import TABLE


def test_importing_the_package_is_light() -> None:
    heavy = "fastapi grpc pandas sklearn torch opentelemetry uvicorn websockets"
    code = f"import sys, inferstream.model; print([m for m in {heavy.split()} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_every_code_has_a_status_on_every_transport() -> None:
    import grpc

    assert set(TABLE) == set(Code)
    for status in TABLE.values():
        assert grpc.StatusCode[status.grpc] is not grpc.StatusCode.UNKNOWN
        assert 400 <= status.http < 600


def test_what_the_package_exports_is_there() -> None:
    import inferstream

    for name in inferstream.__all__:
        assert getattr(inferstream, name) is not None


def test_the_settings_reference_is_generated_from_the_settings() -> None:
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "scripts"))
    try:
        import settings_reference
    finally:
        sys.path.pop(0)
    assert settings_reference.TARGET.read_text() == settings_reference.render(), "run `make settings`"
