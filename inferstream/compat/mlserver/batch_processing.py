"""BatchRun inference of a file of requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferstream.cli.batch import TransportName, headers_of, transport_of
from inferstream.clients.batch import BatchRun, Rate
from inferstream.clients.request_file import RequestFile
from inferstream.clients.results import Results
from inferstream.clients.transport import Target
from inferstream.compat.machinery import stand_ins

from .logging import logger

CHOICES_TRANSPORT = ["rest", "grpc"]


@dataclass
class BatchInputItem:
    """A line of requests and its number."""

    index: int
    item: bytes


@dataclass
class BatchOutputItem:
    """A line of answers and the number of the request's."""

    index: int
    item: bytes


def get_headers(request_id: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers of one request."""
    identity = {"seldon-puid": request_id, "x-request-id": request_id} if request_id else {}
    return {"content-type": "application/json", **headers, **identity}


async def process_batch(
    model_name: str,
    url: str,
    workers: int,
    retries: int,
    batch_size: int,
    input_data_path: str,
    output_data_path: str,
    binary_data: bool,
    transport: TransportName,
    request_headers: Sequence[str],
    timeout: float,
    batch_interval: float,
    batch_jitter: float,
    use_ssl: bool,
    insecure: bool,
    verbose: bool = False,
    extra_verbose: bool = False,
) -> None:
    """Ask the server at `url` for every request of a file, as `server infer` does."""
    target = Target(
        url, model_name, timeout, binary=binary_data, ssl=use_ssl, verify=not insecure, connections=workers
    )
    results = Results(Path(output_data_path), False)
    lines = RequestFile(Path(input_data_path), batch_size, results.done)
    pace = Rate(workers, retries, batch_interval, batch_jitter, headers_of(request_headers))
    sender = transport_of(transport, target)
    try:
        await BatchRun(sender, lines, results, pace, lambda: None).run()
    finally:
        await sender.aclose()
        lines.close()
        results.close()


__getattr__ = stand_ins(__name__)

__all__ = [
    "BatchInputItem",
    "BatchOutputItem",
    "CHOICES_TRANSPORT",
    "get_headers",
    "logger",
    "process_batch",
]
