"""Settings of Kafka."""

from typing import Literal

from pydantic import Field

from inferstream.ext.settings import Section


class KafkaSettings(Section):
    """Where requests come from, and where responses go."""

    kafka_enabled: bool = False
    """Serve requests from a Kafka topic; needs the extra `kafka`."""

    kafka_servers: str = "localhost:9092"
    """Kafka bootstrap servers."""

    kafka_topic_input: str = "mlserver-input"
    """Topic of requests."""

    kafka_topic_output: str = "mlserver-output"
    """Topic of responses."""

    kafka_group: str = Field(default="inferstream", min_length=1)
    """Servers that share the messages."""

    kafka_offset_reset: Literal["latest", "earliest"] = "latest"
    """Where a group begins if it has never committed."""

    kafka_max_in_flight: int = Field(default=64, ge=1)
    """Messages in progress at once."""
