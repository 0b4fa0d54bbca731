"""Errors and statuses of grpclib."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from inferstream import testing
from inferstream.errors import ModelError
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
)


async def test_installed_grpclib_errors_keep_status(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("grpclib.exceptions")

    class Theirs(Exception):
        def __init__(self, status: Any, message: str | None = None) -> None:
            self.status, self.message = status, message

    library.GRPCError = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "grpclib.exceptions", library)
    app = BlazeApp()

    @app.model("m")
    def fails(n: int) -> int:
        raise Theirs(SimpleNamespace(name="RESOURCE_EXHAUSTED"), "too many")

    async with testing.run(app) as models:
        with pytest.raises(ModelError, match="too many") as raised:
            await models.infer("m", n=1)
    assert raised.value.status_code == 429
