# Written by `make settings` from the plug-ins of this distribution.
from typing import Any

from inferstream.plugins.cloudevents.settings import CloudEventsSettings
from inferstream.plugins.kafka.settings import KafkaSettings
from inferstream.plugins.keys.settings import KeysSettings
from inferstream.plugins.kubernetes.settings import KubernetesSettings
from inferstream.plugins.otel.settings import OtelSettings
from inferstream.plugins.page.settings import PageSettings
from inferstream.plugins.record.settings import RecordSection
from inferstream.plugins.sources.settings import FetchSettings
from inferstream.plugins.text.settings import TextSettings
from inferstream.plugins.text.state_settings import StateSettings
from inferstream.plugins.traffic.settings import TrafficSettings, VersionSettings
from inferstream.plugins.triton.settings import SequenceSettings, TritonSettings
from inferstream.settings.model import CoreModelSettings
from inferstream.settings.server import CoreSettings

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
