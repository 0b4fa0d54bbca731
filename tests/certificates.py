"""Certificates made on the spot, by an authority that only these tests know."""

from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """An authority, with its own certificate in `ca.pem` of a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.pem = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.pem)

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = ("127.0.0.1", "localhost"),
        not_after: datetime | None = None,
    ) -> dict[str, str]:
        """Files of a certificate, by default for this machine, and its key, by the names that options give them."""
        made = self._ca.issue_cert(*hosts, not_after=not_after)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(certificate)
        made.private_key_pem.write_to_path(key)
        return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
