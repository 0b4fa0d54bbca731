"""The flags of `server start`, those of plug-ins among them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ..errors import InferstreamError, InvalidSettings
from ..extensions import STARTS, leave_out, loaded
from ..settings import Settings, load_settings
from ..settings.start import ServerStart

PORTS_WITH_TLS = tuple(f"custom_{port}_server_settings" for port in ("rest", "metrics", "grpc"))
"""The settings that name certificates."""


class Flags(NamedTuple):
    """The values of flags, None for those that are absent."""

    settings: Mapping[str, Any]
    joined: Mapping[str, Any] = {}
    """Values of the flags of plug-ins."""
    tls: Mapping[str, str] = {}
    """The certificate of all ports, and its key."""
    one_port: bool = False
    """Whether REST's port is that of gRPC and of the metrics."""
    model_name: str | None = None
    """The name of the folder's only model, whatever its settings say."""

    def load_settings(self, folder: str | Path, classic: bool | None) -> Settings:
        """The settings of a server of this folder. `classic` is that of `ServerStart`. Raises InvalidSettings."""
        start = self.start(classic)
        settings = load_settings(folder, start.flags)
        for name in start.defaults.keys() - settings.model_fields_set:
            setattr(settings, name, start.defaults[name])
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

    def start(self, classic: bool | None) -> ServerStart:
        """The settings that these flags set, as plug-ins read them. Raises InvalidSettings."""
        values = {**self.settings, **self.joined}
        start = ServerStart({name: value for name, value in values.items() if value is not None}, {}, classic)
        strict = bool(self.settings.get("strict"))
        for plugin, prepare in loaded(STARTS, strict):
            try:
                prepare(start)
            except InferstreamError:
                raise
            except Exception as error:
                leave_out(plugin, error, strict)
        return start


def tls_options(certificate: Path | None, key: Path | None) -> dict[str, str]:
    """The options of a port with this certificate; none without one. Raises BadParameter for a key alone."""
    if certificate is None and key is not None:
        raise typer.BadParameter("--tls-key needs --tls-cert")
    files = {"ssl_certfile": certificate, "ssl_keyfile": key}
    return {name: str(file.absolute()) for name, file in files.items() if file is not None}
