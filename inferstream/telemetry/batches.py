"""Meters of the batches of one model."""

from collections.abc import Iterable
from typing import Self

from prometheus_client.core import HistogramMetricFamily, Metric

from .histogram import COUNTS, SECONDS, Histogram


class BatchMeters:
    """Sizes of batches, waits of their requests, and numbers of waiting requests."""

    def __init__(self) -> None:
        self.sizes = Histogram(COUNTS)
        self.waits = Histogram(SECONDS)
        self.depths = Histogram(COUNTS)

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
        names = ["model", "version"]
        sizes = HistogramMetricFamily("inferstream_batch_size", "Requests in a batch", labels=names)
        waits = HistogramMetricFamily(
            "inferstream_batch_wait_seconds", "Seconds a request waited for its batch to leave", labels=names
        )
        # MLServer's name and labels, for its dashboards.
        depths = HistogramMetricFamily(
            "batch_request_queue",
            "Requests that waited for a batch when one more came, itself included",
            labels=["model_name", "model_version"],
        )
        for labels, meters in found:
            sizes.add_metric(labels, meters.sizes.buckets(), meters.sizes.total)
            waits.add_metric(labels, meters.waits.buckets(), meters.waits.total)
            depths.add_metric(labels, meters.depths.buckets(), meters.depths.total)
        return (sizes, waits, depths)
