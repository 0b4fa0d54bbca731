"""The Kafka endpoint."""

from .server import KafkaServer

__all__ = ["KafkaServer"]
