"""The Kafka endpoint."""

from inferstream.compat.replaced import Replaced


class KafkaServer(Replaced):
    """Answers requests of a topic."""

    instead = "kafka_enabled in the settings is what serves a topic"


__all__ = ["KafkaServer"]
