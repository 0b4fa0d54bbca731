"""Settings of Kafka."""

from typing import Literal

from pydantic import Field

from inferstream.ext.settings import Section


class KafkaSettings(Section):
    """Settings of the Kafka transport."""

    kafka_enabled: bool = False
    """Serve requests from a Kafka topic. Requires the extra `kafka`."""

    kafka_servers: str = "localhost:9092"
    """Your Kafka bootstrap servers, separated by commas."""

    kafka_topic_input: str = "mlserver-input"
    """Topic of the requests."""

    kafka_topic_output: str = "mlserver-output"
    """Topic of the responses."""

    kafka_group: str = Field(default="inferstream", min_length=1)
    """Kafka consumer group. The servers of a group share the messages."""

    kafka_offset_reset: Literal["latest", "earliest"] = "latest"
    """Position at which a consumer group without committed offsets starts."""

    kafka_max_in_flight: int = Field(default=64, ge=1)
    """Maximum number of messages in progress at the same time."""
