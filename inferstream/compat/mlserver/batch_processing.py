"""Batch inference of a file of requests."""

from dataclasses import dataclass
from typing import Any

from inferstream.compat.replaced import Replaced, unsupported

CHOICES_TRANSPORT = ["rest", "grpc"]
INFER = "`server infer` asks a server for every request of a file"


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


class TritonRequest(Replaced):
    """A request in the classes of Triton's client."""

    instead = INFER


def get_headers(request_id: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers of one request."""
    identity = {"seldon-puid": request_id, "x-request-id": request_id} if request_id else {}
    return {"content-type": "application/json", **headers, **identity}


def preprocess_items(items: list[BatchInputItem], binary_data: bool) -> Any:
    """Raises Unsupported."""
    raise unsupported(f"{__name__}.preprocess_items", INFER)


def postprocess_items(infer_result: Any, batched: Any, item_indices: dict[str, int]) -> Any:
    """Raises Unsupported."""
    raise unsupported(f"{__name__}.postprocess_items", INFER)


async def process_batch(*_: Any, **__: Any) -> None:
    """Raises Unsupported."""
    raise unsupported(f"{__name__}.process_batch", INFER)


__all__ = [
    "BatchInputItem",
    "BatchOutputItem",
    "CHOICES_TRANSPORT",
    "TritonRequest",
    "get_headers",
    "postprocess_items",
    "preprocess_items",
    "process_batch",
]
