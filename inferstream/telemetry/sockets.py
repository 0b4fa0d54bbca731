"""Meters of WebSockets."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class SocketMeters:
    """The numbers of all WebSockets together; their upgrades count as HTTP requests besides."""

    __slots__ = ("open", "received", "sent")

    def __init__(self) -> None:
        self.open = 0
        self.received = 0
        self.sent = 0

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("inferstream_websockets", "WebSockets that are open", value=self.open)
        yield CounterMetricFamily(
            "inferstream_websocket_messages_received", "Messages received", value=self.received
        )
        yield CounterMetricFamily("inferstream_websocket_messages_sent", "Messages sent", value=self.sent)
