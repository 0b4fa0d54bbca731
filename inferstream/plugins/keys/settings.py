"""Settings of keys, of their use, and of proxies that name clients."""

from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator

from inferstream.ext.settings import Section, expand_path


class KeysSettings(Section):
    """Who may call, how clients are told apart, and what is written of their calls."""

    keys_file: str | None = None
    """Keys of clients, which `server keys` writes; none are needed if absent."""

    usage_file: str | None = None
    """File that keeps what keys have used by day, over restarts."""

    audit_log: str | None = None
    """File with a JSON line for each call: who, what, how much."""

    trusted_proxies: list[str] = []
    """Addresses or networks of proxies that name clients."""

    objectives: dict[str, Literal[1, 2, 3, 4, 5, 6, 7, 8, 9]] = Field(default_factory=dict)
    """Priorities of the objectives that `trusted_proxies` name."""

    share_cache: bool = False
    """Whether principals of keys share cached responses; without keys all clients do."""

    _files_of_keys = field_validator("keys_file", "usage_file", "audit_log")(expand_path)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ip_network(network)
        return value
