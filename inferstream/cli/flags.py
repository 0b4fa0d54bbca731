"""The flags of `server start`. Some are no settings: those that `blaze serve` has besides."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ..errors import InvalidSettings
from ..settings import Settings, load_settings

BLAZERPC_PORT = 50051
"""The port of gRPC where BlazeRPC's clients expect it."""

PORTS_WITH_TLS = tuple(f"custom_{port}_server_settings" for port in ("rest", "metrics", "grpc"))
"""The settings that name certificates."""

TRANSPORTS = {"grpc": "http_port", "jsonrpc": "grpc_port", "both": None}
"""Each transport, and the port that may be any free one."""

PLATFORM_PORTS = ("AIP_HTTP_PORT", "SAGEMAKER_BIND_TO_PORT")
"""Variables by which Vertex AI and SageMaker say where they send requests."""


class Flags(NamedTuple):
    """`port` is that of gRPC for apps of BlazeRPC, else that of REST. `transport` is the one whose port matters."""

    settings: Mapping[str, Any]
    port: int | None = None
    transport: str | None = None
    tls: Mapping[str, str] = {}
    """The certificate of all ports, and its key."""
    one_port: bool = False
    """Whether REST's port is that of gRPC and of the metrics."""
    model_name: str | None = None
    """The name of the folder's only model, whatever its settings say."""

    def load_settings(self, folder: str | Path, classic: bool) -> Settings:
        """The settings of a server of this folder. `classic` is for an app of BlazeRPC. Raises InvalidSettings."""
        settings = load_settings(folder, self._settings(classic))
        defaults = {"grpc_port": BLAZERPC_PORT} if classic else {}
        if port := next((value for name in PLATFORM_PORTS if (value := os.environ.get(name))), None):
            if not port.isdecimal():
                raise InvalidSettings(f"environment: {' or '.join(PLATFORM_PORTS)}: {port!r} is no port")
            defaults["http_port"] = int(port)
        if self.transport is not None and (free := TRANSPORTS[self.transport]) is not None:
            defaults[free] = 0
        for name in defaults.keys() - settings.model_fields_set:
            setattr(settings, name, defaults[name])
        if self.one_port:
            if self.settings.get("grpc_port") not in (None, settings.http_port):
                raise InvalidSettings("--one-port and --grpc-port are two ports")
            settings.grpc_port = None
            if "metrics_port" not in settings.model_fields_set:
                settings.metrics_port = settings.http_port
        if self.model_name is not None:
            settings.model_repository_implementation_args["name"] = self.model_name
        if self.tls:
            for name in PORTS_WITH_TLS:
                setattr(settings, name, {**(getattr(settings, name) or {}), **self.tls})
        return settings

    def _settings(self, classic: bool) -> dict[str, Any]:
        if self.transport not in (None, *TRANSPORTS):
            raise InvalidSettings(f'--transport "{self.transport}" is not grpc, jsonrpc or both')
        values = {name: value for name, value in self.settings.items() if value is not None}
        if self.port is None:
            return values
        name = "grpc_port" if classic else "http_port"
        if values.setdefault(name, self.port) != self.port:
            raise InvalidSettings(f"--port and --{name.replace('_', '-')} are the same port here")
        return values


def tls_options(certificate: Path | None, key: Path | None) -> dict[str, str]:
    """The options of a port with this certificate; none without one. Raises BadParameter for a key alone."""
    if certificate is None and key is not None:
        raise typer.BadParameter("--tls-key needs --tls-cert")
    files = {"ssl_certfile": certificate, "ssl_keyfile": key}
    return {name: str(file.absolute()) for name, file in files.items() if file is not None}
