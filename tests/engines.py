"""The engines of the gRPC port, for tests that run over each."""

import pytest

ENGINES = ("auto", "grpcio")
"""What `grpc_engine` is. `auto` is what the environment names, and else the engine of a server without settings."""

EVERY_ENGINE = pytest.mark.parametrize("grpc_engine", ENGINES, indirect=True, scope="session")
"""Runs a test, with its servers, over each engine; others run over the first."""


def environment_of(engine: str) -> dict[str, str]:
    """The environment of a server with this engine."""
    return {} if engine == "auto" else {"INFERSTREAM_GRPC_ENGINE": engine}
