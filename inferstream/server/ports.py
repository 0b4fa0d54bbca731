"""Listening sockets, bound before any model loads, so that a port in use is an error at once."""

import errno
import os
import socket
from contextlib import suppress

from ..errors import InvalidSettings

SERVED_PORTS: set[int] = set()
"""Ports whose sockets are closed in processes that model code forks, because these may outlive the server."""


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


def _close_served() -> None:
    if not SERVED_PORTS:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # it is no socket
            sock = socket.socket(fileno=descriptor)
            address = sock.getsockname() if sock.family in (socket.AF_INET, socket.AF_INET6) else ("", 0)
            sock.detach()
            if address[1] in SERVED_PORTS:
                os.dup2(null, descriptor, inheritable=False)  # objects of the server still have its number
    os.close(null)


os.register_at_fork(after_in_child=_close_served)
