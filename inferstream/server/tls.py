"""TLS certificates of the server, checked at the start and renewed while it serves."""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InvalidSettings
from ..settings.environment import expanded

OPTIONS = (
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_keyfile_password",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_ciphers",
)
"""uvicorn's names, for REST and gRPC alike."""

LOOK_EVERY = 1.0
"""Seconds between checks for a new certificate."""

LARGEST = 2**20
"""Bytes of a file of certificates."""

Stamps = tuple[tuple[int, int], ...]
"""Modification time in ns and size in bytes of each file."""


class Certificates:
    """The certificate and key of one port, and the authority of its clients' certificates.

    Paths are relative to the served `folder`; `source` names the setting in errors.
    Raises InvalidSettings that names the file if one is missing or wrong.
    """

    def __init__(self, options: Mapping[str, Any], folder: str, source: str) -> None:
        self.source = source
        self._folder = Path(folder)
        self._certificate = self._path(options, "ssl_certfile")
        self._key = self._path(options, "ssl_keyfile") if options.get("ssl_keyfile") else self._certificate
        self._authority = self._path(options, "ssl_ca_certs") if options.get("ssl_ca_certs") else None
        self.password = str(options.get("ssl_keyfile_password") or "")
        self.ciphers = options.get("ssl_ciphers")
        self.clients = self._clients(options)
        self._stamps = self._look()
        self.context = self._load()

    def _path(self, options: Mapping[str, Any], name: str) -> Path:
        value = options.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidSettings(f'{self.source}: field "{name}" must name a file, got {value!r}')
        path = self._folder / expanded(value)
        try:
            size = path.stat().st_size
            with path.open("rb"):
                pass
        except OSError as error:
            raise InvalidSettings(f"{self.source}: {name} {path}: {error.strerror}") from None
        if size > LARGEST:
            raise InvalidSettings(f"{self.source}: {name} {path}: larger than {LARGEST} bytes")
        return path

    def _clients(self, options: Mapping[str, Any]) -> ssl.VerifyMode:
        """Whether clients must show a certificate. A named authority requires one by default."""
        unasked = ssl.CERT_NONE if self._authority is None else ssl.CERT_REQUIRED
        try:
            mode = ssl.VerifyMode(options.get("ssl_cert_reqs", unasked))
        except ValueError:
            raise InvalidSettings(f'{self.source}: field "ssl_cert_reqs" must be 0, 1 or 2') from None
        if mode is not ssl.CERT_NONE and self._authority is None:
            raise InvalidSettings(f'{self.source}: "ssl_cert_reqs" needs "ssl_ca_certs"')
        return mode

    def _look(self) -> Stamps:
        stats = [
            os.stat(path) for path in (self._certificate, self._key, self._authority) if path is not None
        ]
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a callable, OpenSSL would ask for the password of a key on the terminal.
            context.load_cert_chain(self._certificate, self._key, lambda: self.password)
        except OSError as error:
            files = f"ssl_certfile {self._certificate} and ssl_keyfile {self._key}"
            raise InvalidSettings(f"{self.source}: {files}: {self._reason(error)}") from None
        context.verify_mode = self.clients
        if self._authority is not None:
            try:
                context.load_verify_locations(self._authority)
            except OSError as error:
                raise InvalidSettings(
                    f"{self.source}: ssl_ca_certs {self._authority}: {self._reason(error)}"
                ) from None
        if self.ciphers is not None:
            try:
                context.set_ciphers(self.ciphers)
            except (ssl.SSLError, TypeError):
                raise InvalidSettings(f'{self.source}: field "ssl_ciphers" names no cipher') from None
        return context

    def _reason(self, error: OSError) -> str:
        """The reason of an error, without OpenSSL's source location."""
        if not isinstance(error, ssl.SSLError):
            return str(error.strerror)
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the certificate and the key do not belong together"
        if b"ENCRYPTED" in self._key.read_bytes():
            return "ssl_keyfile_password is wrong or missing"
        return "not in PEM form"

    def changed(self) -> bool:
        """Whether the certificate has changed since the last call. Raises InvalidSettings for a wrong one."""
        try:
            stamps = self._look()
        except OSError:
            return False  # between the removal of one file and the creation of the next
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._load()
        return True

    async def keep_renewed(self, logger: logging.Logger) -> None:
        """Serve new connections with a certificate that has changed, until cancelled. `logger` is the port's."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                if await asyncio.to_thread(self.changed):
                    self.renew()
                    logger.info("the certificate has changed; new connections get the new one")
            except (InvalidSettings, OSError) as error:
                logger.error("the certificate has changed and cannot be used: %s", error)

    def renew(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key, lambda: self.password)
        if self._authority is not None:
            self.context.load_verify_locations(self._authority)


def certificates(options: Mapping[str, Any], folder: str, source: str) -> Certificates | None:
    """The certificates that a server's options name; None for a server without TLS. Raises InvalidSettings."""
    named = [name for name in OPTIONS if options.get(name)]
    if not named:
        return None
    if not options.get("ssl_certfile"):
        raise InvalidSettings(f'{source}: "{named[0]}" needs "ssl_certfile"')
    return Certificates(options, folder, source)
