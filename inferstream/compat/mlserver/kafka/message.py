"""One message."""

from inferstream.compat.replaced import Replaced


class KafkaMessage(Replaced):
    """Key, value and headers of one message."""

    instead = "kafka_enabled in the settings serves a topic"


__all__ = ["KafkaMessage"]
