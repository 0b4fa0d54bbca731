"""The flags of `server start`, including flags of plug-ins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ..errors import InferstreamError, InvalidSettings
from ..extensions.entries import STARTS
from ..extensions.loading import check_names, leave_out, load_group
from ..settings import Settings, load_settings
from ..settings.sections import declared_names
from ..settings.start import ServerStart

PORTS_WITH_TLS = tuple(f"custom_{port}_server_settings" for port in ("rest", "metrics", "grpc"))
"""The settings that contain certificates."""


SPELLINGS = {"parallel_workers": "--workers", "use_structured_logging": "--log-json"}
"""The flags whose names differ from their settings."""


class Flags(NamedTuple):
    """The values of flags, which are None if absent."""

    settings: Mapping[str, Any]
    joined: Mapping[str, Any] = {}
    """The values of plug-in flags."""
    tls: Mapping[str, str] = {}
    """The certificate and key options of all ports."""
    one_port: bool = False
    """Whether REST, gRPC and metrics share one port."""
    model_name: str | None = None
    """The name of the only model in the folder, which overrides its settings."""

    def load_settings(self, folder: str | Path, classic: bool | None) -> Settings:
        """Load the settings for a folder, with these flags applied. `classic` is passed to `ServerStart`.

        Raises InvalidSettings.
        """
        start = self.start(classic)
        self._check_plugin_flags(start)
        settings = load_settings(folder, start.flags, self._spell(start))
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
        """Return the settings in these flags, processed by the `starts` functions of plug-ins.

        Raises InvalidSettings.
        """
        values = {**self.settings, **self.joined}
        start = ServerStart({name: value for name, value in values.items() if value is not None}, {}, classic)
        strict = bool(self.settings.get("strict"))
        for plugin, prepare in load_group(STARTS, strict):
            try:
                prepare(start)
            except InferstreamError:
                raise
            except Exception as error:
                leave_out(plugin, error, strict)
        port = start.flags.pop("port", None)
        if port is not None and start.flags.setdefault("http_port", port) != port:
            raise InvalidSettings("--port and --http-port are the same port")
        return start

    def _spell(self, start: ServerStart) -> dict[str, str]:
        """Return the flag of each setting as the user writes it.

        A function in `starts` may have moved the value to another setting.
        """
        moved = [
            (name, value)
            for name, value in {**self.settings, **self.joined}.items()
            if name not in start.flags and value is not None
        ]
        given = {name for each in (self.settings, self.joined) for name in each if each[name] is not None}
        flags = {name: name for name in start.flags.keys() & given}
        for setting in start.flags.keys() - flags:
            if names := [name for name, value in moved if value == start.flags[setting]]:
                flags[setting] = names[0]
        return {
            setting: SPELLINGS.get(name, f"--{name.replace('_', '-')}") for setting, name in flags.items()
        }

    def _check_plugin_flags(self, start: ServerStart) -> None:
        """Raise InvalidSettings for a plug-in flag without a setting or a `starts` function that uses it."""
        for name in sorted((start.flags.keys() & self.joined.keys()) - declared_names(Settings)):
            check_names(strict=True)  # raises if a settings section was skipped, and may define the field
            raise InvalidSettings(
                f'--{name.replace("_", "-")}: the plug-in that adds this flag has no setting "{name}", '
                "and no function in `starts` of an extension takes the flag"
            )


def tls_options(certificate: Path | None, key: Path | None) -> dict[str, str]:
    """Return the TLS options of a port, or an empty dictionary without a certificate.

    Raises BadParameter if only the key is given.
    """
    if certificate is None and key is not None:
        raise typer.BadParameter("--tls-key needs --tls-cert")
    files = {"ssl_certfile": certificate, "ssl_keyfile": key}
    return {name: str(file.absolute()) for name, file in files.items() if file is not None}
