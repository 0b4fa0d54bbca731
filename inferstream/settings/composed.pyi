# Written by `make settings` from the plug-ins of this distribution.
from typing import Any

from inferstream.plugins.cloudevents.settings import CloudEventsSettings
from inferstream.plugins.kafka.settings import KafkaSettings
from inferstream.plugins.keys.settings import KeysSettings
from inferstream.plugins.kubernetes.settings import KubernetesSettings
from inferstream.plugins.otel.settings import OtelSettings
from inferstream.plugins.page.settings import PageSettings
from inferstream.plugins.text.settings import TextSettings
from inferstream.plugins.triton.settings import SequenceSettings, TritonSettings
from inferstream.settings.fetching import FetchSettings
from inferstream.settings.model import CoreModelSettings
from inferstream.settings.record import RecordSection
from inferstream.settings.server import CoreSettings
from inferstream.settings.state import StateSettings
from inferstream.settings.traffic import TrafficSettings, VersionSettings

class Settings(
    TritonSettings,
    TrafficSettings,
    StateSettings,
    FetchSettings,
    RecordSection,
    PageSettings,
    OtelSettings,
    KubernetesSettings,
    KeysSettings,
    KafkaSettings,
    CloudEventsSettings,
    CoreSettings,
): ...

class ModelSettings(
    SequenceSettings,
    VersionSettings,
    TextSettings,
    CoreModelSettings,
):
    def __init__(self, **values: Any) -> None: ...
