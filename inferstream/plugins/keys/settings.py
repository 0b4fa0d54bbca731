"""Settings of client keys, usage, and proxies that identify clients."""

from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator

from inferstream.ext.settings import Section, expand_path


class KeysSettings(Section):
    """Access control: who may call the server, how clients are identified, and where their calls are
    logged."""

    keys_file: str | None = None
    """File of client keys, which `server keys` manages. If null, and `INFERSTREAM_KEYS` is not set, clients
    do not need keys."""

    allow_open_metrics: bool = False
    """Serve the metrics port without keys. Set this only if you trust every client that can reach the port."""

    usage_file: str | None = None
    """File that keeps the daily usage of each key across restarts."""

    audit_log: str | None = None
    """File with a JSON line for each call: client, operation, model, usage and status."""

    trusted_proxies: list[str] = []
    """Addresses or networks of your proxies whose headers identify clients."""

    objectives: dict[str, Literal[1, 2, 3, 4, 5, 6, 7, 8, 9]] = Field(default_factory=dict)
    """Priorities by name of the objective in the requests of trusted proxies, such as `{"chat": 2, "batch":
    8}`."""

    share_cache: bool = False
    """Share cached responses between clients with different keys. Without keys, all clients share them."""

    _files_of_keys = field_validator("keys_file", "usage_file", "audit_log")(expand_path)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ip_network(network)
        return value
