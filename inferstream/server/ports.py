"""Listening sockets. They are bound before any model loads, so that a port in use is detected immediately."""

import errno
import os
import socket
from contextlib import suppress

from ..errors import HINT, InvalidSettings

SERVED_PORTS: set[int] = set()
"""Ports whose sockets are closed in forked child processes.

Model code can fork processes that outlive the server.
"""


def bind(host: str, port: int, name: str, *, shared: bool = False) -> socket.socket:
    """Bind a listening TCP socket. Port 0 chooses a free port.

    With `shared`, the port can be shared with other sockets that use `SO_REUSEPORT`. Raises InvalidSettings
    naming the port and its purpose if the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            share(sock)
        sock.bind((host, port))
        sock.listen()  # until then, other sockets can bind the same port, including the gRPC port
    except OSError as error:
        sock.close()
        raise InvalidSettings(_describe_error(error, host, port, name)) from None
    sock.setblocking(False)
    return sock


def _describe_error(error: OSError, host: str, port: int, name: str) -> str:
    """Return the reason why a port cannot be bound, and the next step."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        step = "listen on --host 127.0.0.1, or on all addresses with --host 0.0.0.0"
        return f"--host {host}: this machine has no such address{HINT}{step}"
    reasons = {errno.EADDRINUSE: "is already in use", errno.EACCES: "is not allowed for this user"}
    reason = reasons.get(error.errno or 0, f"cannot be used: {error.strerror}")
    flag = {"REST": "--port"}.get(name, f"--{name.lower()}-port")
    return f"{name} port {port} on {host} {reason}{HINT}choose another one with {flag}"


def share(sock: socket.socket) -> None:
    """Let other sockets of this user listen on the same port. The kernel distributes the connections.

    Call it after `bind`, so that `bind` without `SO_REUSEPORT` proves that the port was free.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _close_served_ports() -> None:
    if not SERVED_PORTS:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # not a socket
            sock = socket.socket(fileno=descriptor)
            address = sock.getsockname() if sock.family in (socket.AF_INET, socket.AF_INET6) else ("", 0)
            sock.detach()
            if address[1] in SERVED_PORTS:
                os.dup2(null, descriptor, inheritable=False)  # server objects still refer to this descriptor
    os.close(null)


os.register_at_fork(after_in_child=_close_served_ports)
