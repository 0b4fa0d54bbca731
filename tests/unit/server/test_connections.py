"""Who is at the other end of a connection."""

from typing import Any

from inferstream.server.connections import ScopeOrigin, TransportOrigin, address, identities


class Transport:
    def get_extra_info(self, name: str) -> Any:
        certificate = {"subjectAltName": (("DNS", "a.example"), ("othername", b"?"))}
        return {"sockname": ("127.0.0.1", 80), "peercert": certificate}.get(name)


class Connection(TransportOrigin):
    def __init__(self, peername: Any) -> None:
        self.peername = peername
        self.transport = Transport()  # type: ignore[assignment]


def test_address_has_grpc_format() -> None:
    assert address(("127.0.0.1", 1)) == "ipv4:127.0.0.1:1"
    assert address(("::1", 1)) == "ipv6:[::1]:1"
    assert address(None) == ""


def test_connection_has_both_addresses() -> None:
    connection = Connection(("::1", 5, 0, 0))
    assert (connection.client, connection.server) == (("::1", 5), ("127.0.0.1", 80))
    assert (connection.peer, connection.identities) == ("ipv6:[::1]:5", ("a.example",))
    assert Connection("").client is None


def test_certificate_without_alternative_names_uses_common_name() -> None:
    assert identities({"subject": ((("commonName", "someone"),),)}) == ("someone",)
    assert identities({"subject": ()}) == identities(None) == ()


def test_foreign_server_scope_has_no_certificate() -> None:
    origin = ScopeOrigin({"client": ("127.0.0.1", 7)})
    assert (origin.peer, origin.identities) == ("ipv4:127.0.0.1:7", ())
