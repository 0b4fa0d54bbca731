"""The entry point of a worker process."""

from ..dataplane.workers.worker import main as serve
from .custom import build_route_handler


def main(*shared: int) -> None:
    """Serve as a worker, with the file descriptors that the server opened for it."""
    serve(build_route_handler, *shared)
