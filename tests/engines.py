"""What carries RPCs, for tests that run over each: the server's own port, and a server of grpcio."""

import pytest

ENGINES = ("native", "grpcio")
"""The port of `server start`, and `tests/embedded.py`, which embeds the services in a server of grpcio."""

EVERY_ENGINE = pytest.mark.parametrize("grpc_engine", ENGINES, indirect=True, scope="session")
"""Runs a test, with its servers, over each engine; others run over the first."""


def options_of(engine: str) -> dict[str, bool]:
    """The options of a `Running` with this engine."""
    return {"embedded": engine == "grpcio"}
