"""Meters of the streams of one model."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from .histogram import GAPS, SECONDS, Histogram


class StreamMeters:
    """Responses in streams, the seconds to the first, and the seconds between them."""

    def __init__(self) -> None:
        self.items = 0
        self.first = Histogram(SECONDS)
        self.gaps = Histogram(GAPS)


def collect(found: Iterable[tuple[list[str], StreamMeters]]) -> Iterable[Metric]:
    names = ["model", "version"]
    items = CounterMetricFamily("inferstream_stream_items", "Responses sent in streams", labels=names)
    first = HistogramMetricFamily(
        "inferstream_time_to_first_item_seconds",
        "Seconds from call to a stream's first response",
        labels=names,
    )
    gaps = HistogramMetricFamily(
        "inferstream_time_between_items_seconds",
        "Seconds from one response of a stream to the next, its reader's included",
        labels=names,
    )
    for labels, meters in found:
        items.add_metric(labels, meters.items)
        first.add_metric(labels, meters.first.buckets(), meters.first.total)
        gaps.add_metric(labels, meters.gaps.buckets(), meters.gaps.total)
    return (items, first, gaps)
