"""Sockets, taken before any model loads, so that a port in use is known at once."""

import errno
import socket

from ..errors import InvalidSettings


def bind(host: str, port: int, name: str, *, shared: bool = False) -> socket.socket:
    """A TCP socket that listens; port 0 takes a free one. Raises InvalidSettings naming the port and whose it is.

    With `shared`, others may be listening there, as long as they share too.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            share(sock)
        sock.bind((host, port))
        sock.listen()  # until it does, others may bind the same port, our own gRPC among them
    except OSError as error:
        sock.close()
        raise unusable(host, port, name, error) from None
    sock.setblocking(False)
    return sock


def share(sock: socket.socket) -> None:
    """Let further sockets of this user listen where this one does, and the system spread what comes.

    Done after `bind`, which without it proves that nobody else has the port.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def unusable(host: str, port: int, name: str, error: OSError) -> InvalidSettings:
    """The error for a port that cannot be had, in one line."""
    if error.errno == errno.EADDRINUSE:
        return InvalidSettings(f"{name} port {port} on {host} is already in use")
    return InvalidSettings(f"{name} port {port} on {host} cannot be used: {error.strerror}")
