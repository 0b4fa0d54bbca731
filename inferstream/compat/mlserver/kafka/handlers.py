"""What answers a message."""

from inferstream.compat.replaced import Replaced

MLSERVER_MODEL_NAME_HEADER = "mlserver-model"
MLSERVER_MODEL_VERSION_HEADER = "mlserver-version"


class KafkaHandlers(Replaced):
    """Answers one message."""

    instead = "kafka_enabled in the settings serves a topic"


__all__ = ["MLSERVER_MODEL_NAME_HEADER", "MLSERVER_MODEL_VERSION_HEADER", "KafkaHandlers"]
