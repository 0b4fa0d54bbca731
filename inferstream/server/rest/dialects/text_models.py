"""The models that take text, as the dialects of text list and name them."""

from inferstream import ModelSettings
from inferstream.ext.calls import Admission, Caller, Described, ServerModels
from inferstream.ext.runtimes import Faceted
from inferstream.plugins.text.settings import TextSettings

from ....errors import ModelNotFound
from ....text.interface import TextInterface


def is_hidden(settings: ModelSettings) -> bool:
    """Whether the settings of a model hide it from clients of texts."""
    return settings.section(TextSettings).openai is False


def described(dataplane: ServerModels, name: str, version: str | None = None) -> Described:
    """What people are told about a model. Raises ModelNotFound, also for a hidden model, ModelNotReady."""
    model = dataplane.described(name, version)
    if is_hidden(model.settings):
        raise ModelNotFound(name, version)
    return model


def text_of(admission: Admission) -> TextInterface | None:
    """How a model takes text; None for one that takes none. Raises ModelNotFound for a hidden model."""
    interface = admission.pipeline.facet(TextInterface)
    if interface is not None:
        interface.limits = admission.pipeline.limits  # of the server, which a facet does not know
    elif is_hidden(admission.pipeline.settings):
        raise ModelNotFound(admission.model, admission.version)
    return interface


def listed(dataplane: ServerModels, caller: Caller) -> list[tuple[str, Faceted[TextInterface]]]:
    """The models that take text, each version of them, and the names by which clients call them."""
    return [
        (f"{model.name}:{model.version}" if versioned else model.name, model)
        for model in dataplane.faceted(TextInterface, caller)
        if model.facet.listed
        for versioned in ((False, True) if model.default and model.version else (not model.default,))
    ]
