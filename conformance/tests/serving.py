"""The reference server, started."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine import Engine
from oip_conformance.http import Http
from oip_conformance.rpc import Rpc
from oip_conformance.server import ROLES, Server
from rest import http_server
from rpc import rpc_server


@contextmanager
def addresses(*wrong: str) -> Iterator[tuple[str, str]]:
    """The addresses of REST and gRPC of the reference server, with mutations."""
    engine = Engine(wrong)
    http, (rpc, port) = http_server(engine), rpc_server(engine)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    rpc.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", f"127.0.0.1:{port}"
    finally:
        rpc.stop(None)
        http.shutdown()
        thread.join()
        http.server_close()


@contextmanager
def reference(*wrong: str) -> Iterator[Server]:
    """The reference server, as the cases see it."""
    with addresses(*wrong) as (url, address):
        client = Rpc(address, 5)
        try:
            yield Server(Http(url, 5), client, {role: f"oip-{role}" for role in ROLES})
        finally:
            client.close()
