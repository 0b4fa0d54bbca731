"""What answers a message."""

from inferstream.compat.replaced import Replaced


class KafkaHandlers(Replaced):
    """Answers one message."""

    instead = "kafka_enabled in the settings is what serves a topic"


__all__ = ["KafkaHandlers"]
