"""The service of gRPC's interoperability cases over every engine, and a client of it."""

from collections.abc import Iterator

import grpc
import pytest

from .client import Client
from .engines import HOSTS, Port, serving
from .interop import Interop


@pytest.fixture(scope="module", params=HOSTS)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def interop() -> Interop:
    return Interop()


@pytest.fixture(scope="module")
def port(engine: str, interop: Interop) -> Iterator[Port]:
    with serving(interop, engine) as port:
        yield port


@pytest.fixture(scope="module")
def client(port: Port) -> Iterator[Client]:
    with grpc.insecure_channel(port.address) as channel:
        yield Client(channel)
