"""The Kafka endpoint."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced


class KafkaServer(Replaced):
    """Answers requests of a topic."""

    instead = "kafka_enabled in the settings serves a topic"


__getattr__ = stand_ins(__name__)

__all__ = ["KafkaServer"]
