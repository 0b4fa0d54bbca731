# Written by `make settings` from the plug-ins of this distribution.
from typing import Any

from inferstream.plugins.kafka.settings import KafkaSettings
from inferstream.settings.fetching import FetchSettings
from inferstream.settings.model import CoreModelSettings
from inferstream.settings.record import RecordSection
from inferstream.settings.server import CoreSettings

class Settings(
    FetchSettings,
    RecordSection,
    KafkaSettings,
    CoreSettings,
): ...

class ModelSettings(
    CoreModelSettings,
):
    def __init__(self, **values: Any) -> None: ...
