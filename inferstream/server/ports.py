"""Listening sockets, bound before any model loads, so that a port in use is an error at once."""

import errno
import socket

from ..errors import InvalidSettings


def bind(host: str, port: int, name: str, *, shared: bool = False) -> socket.socket:
    """A TCP socket that listens; port 0 chooses a free one. Raises InvalidSettings that names the port and its use.

    With `shared`, other sockets that are shared too may listen at the same port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            share(sock)
        sock.bind((host, port))
        sock.listen()  # before that, other sockets may bind the same port, also that of gRPC
    except OSError as error:
        sock.close()
        used = error.errno == errno.EADDRINUSE
        reason = "is already in use" if used else f"cannot be used: {error.strerror}"
        flag = {"REST": "--http-port"}.get(name, f"--{name.lower()}-port")
        raise InvalidSettings(
            f"{name} port {port} on {host} {reason}; choose another one with {flag}"
        ) from None
    sock.setblocking(False)
    return sock


def share(sock: socket.socket) -> None:
    """Let further sockets of this user listen at the same port; the kernel spreads the connections.

    Call it after `bind`, because a `bind` without it proves that the port was free.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
