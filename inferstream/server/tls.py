"""TLS certificates of the ports, checked at startup and reloaded when their files change."""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import HINT, InvalidSettings
from ..settings.environment import expand_path

OPTIONS = (
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_keyfile_password",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_ciphers",
)
"""Option names, for both REST and gRPC. They are the same as in uvicorn."""

CHECK_INTERVAL_SECONDS = 1.0
"""Seconds between checks for a changed certificate."""

AS_PEM = "name a file that begins with -----BEGIN; `openssl x509 -inform der` converts a certificate"

MAX_CERTIFICATE_BYTES = 2**20
"""The maximum size of a certificate file in bytes."""

Stamps = tuple[tuple[int, int], ...]
"""The modification time in nanoseconds and the size in bytes of each file."""


class Certificates:
    """The certificate and key of one port, and the CA certificates that verify its clients.

    Paths are relative to the served `folder`. `source` is the setting that error messages name. Raises
    InvalidSettings, which names the file, if a file is missing or invalid.
    """

    def __init__(self, options: Mapping[str, Any], folder: str, source: str) -> None:
        self.source = source
        self._folder = Path(folder)
        self._certificate = self._check_path(options, "ssl_certfile")
        self._key = (
            self._check_path(options, "ssl_keyfile") if options.get("ssl_keyfile") else self._certificate
        )
        self._authority = self._check_path(options, "ssl_ca_certs") if options.get("ssl_ca_certs") else None
        self.password = str(options.get("ssl_keyfile_password") or "")
        self.ciphers = options.get("ssl_ciphers")
        self.clients = self._verify_mode(options)
        self._stamps = self._read_stamps()
        self.context = self._load()

    def _check_path(self, options: Mapping[str, Any], name: str) -> Path:
        value = options.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidSettings(f'{self.source}: field "{name}" must name a file, got {value!r}')
        path = self._folder / expand_path(value)
        try:
            size = path.stat().st_size
            with path.open("rb"):
                pass
        except OSError as error:
            raise InvalidSettings(f"{self.source}: {name} {path}: {error.strerror}") from None
        if size > MAX_CERTIFICATE_BYTES:
            raise InvalidSettings(f"{self.source}: {name} {path}: larger than {MAX_CERTIFICATE_BYTES} bytes")
        return path

    def _verify_mode(self, options: Mapping[str, Any]) -> ssl.VerifyMode:
        """Return how clients are verified: by default CERT_REQUIRED with `ssl_ca_certs`, else CERT_NONE."""
        unasked = ssl.CERT_NONE if self._authority is None else ssl.CERT_REQUIRED
        try:
            mode = ssl.VerifyMode(options.get("ssl_cert_reqs", unasked))
        except ValueError:
            raise InvalidSettings(f'{self.source}: field "ssl_cert_reqs" must be 0, 1 or 2') from None
        if mode is not ssl.CERT_NONE and self._authority is None:
            raise InvalidSettings(f'{self.source}: "ssl_cert_reqs" needs "ssl_ca_certs"')
        return mode

    def _read_stamps(self) -> Stamps:
        stats = [
            os.stat(path) for path in (self._certificate, self._key, self._authority) if path is not None
        ]
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a callable, OpenSSL would prompt for the key's password on the terminal.
            context.load_cert_chain(self._certificate, self._key, lambda: self.password)
        except OSError as error:
            raise InvalidSettings(self._describe_error(error)) from None
        context.verify_mode = self.clients
        if self._authority is not None:
            try:
                context.load_verify_locations(self._authority)
            except OSError:
                raise InvalidSettings(
                    f"{self.source}: ssl_ca_certs {self._authority}: not in PEM form{HINT}{AS_PEM}"
                ) from None
        if self.ciphers is not None:
            try:
                context.set_ciphers(self.ciphers)
            except (ssl.SSLError, TypeError):
                raise InvalidSettings(f'{self.source}: field "ssl_ciphers" names no cipher') from None
        return context

    def _describe_error(self, error: OSError) -> str:
        """Describe a certificate and key that cannot be loaded, without OpenSSL's source location."""
        certificate, key = f"certificate {self._certificate}", f"key {self._key}"
        if not isinstance(error, ssl.SSLError):
            return f"{self.source}: {certificate}, {key}: {error.strerror}"
        if error.reason == "KEY_VALUES_MISMATCH":
            step = f'name the key of this certificate in --tls-key, or in "ssl_keyfile" of {self.source}'
            return f"{certificate}: {key} belongs to another certificate{HINT}{step}"
        if b"ENCRYPTED" in self._key.read_bytes():
            step = f'set "ssl_keyfile_password" in {self.source}'
            return f"{key}: its password is wrong or missing{HINT}{step}"
        is_certificate = b"-----BEGIN CERTIFICATE" in self._certificate.read_bytes()
        if is_certificate and self._key == self._certificate:
            return f"{certificate}: the file has no key{HINT}name the key's file in --tls-key"
        return f"{key if is_certificate else certificate}: not in PEM form{HINT}{AS_PEM}"

    def detect_change(self) -> bool:
        """Whether the files have changed since the last call.

        Raises InvalidSettings if the new certificate is invalid.
        """
        try:
            stamps = self._read_stamps()
        except OSError:
            return False  # one file was removed and the next is not written yet
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._load()
        return True

    async def watch(self, logger: logging.Logger) -> None:
        """Use a changed certificate for new connections, until cancelled. Logs to the port's `logger`."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            try:
                if await asyncio.to_thread(self.detect_change):
                    self.renew()
                    logger.info("certificate changed; new connections use the new one")
            except (InvalidSettings, OSError) as error:
                logger.error("certificate changed but not usable, the previous one stays in use: %s", error)

    def renew(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key, lambda: self.password)
        if self._authority is not None:
            self.context.load_verify_locations(self._authority)


def load_certificates(options: Mapping[str, Any], folder: str, source: str) -> Certificates | None:
    """Load the certificates that the options name, or return None without TLS options.

    Raises InvalidSettings.
    """
    named = [name for name in OPTIONS if options.get(name)]
    if not named:
        return None
    if not options.get("ssl_certfile"):
        raise InvalidSettings(f'{source}: "{named[0]}" needs "ssl_certfile"')
    return Certificates(options, folder, source)
