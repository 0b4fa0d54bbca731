"""The models that take text, as the text dialects list and name them."""

from inferstream import ModelSettings
from inferstream.errors import ModelNotFound
from inferstream.ext.calls import Admission, Caller, Described, ServerModels
from inferstream.ext.runtimes import Faceted

from .interface import TextInterface
from .settings import TextSettings


def is_hidden(settings: ModelSettings) -> bool:
    """Return whether the settings of a model hide it from text clients."""
    return settings.section(TextSettings).openai is False


def describe_model(dataplane: ServerModels, name: str, version: str | None = None) -> Described:
    """Return the description of a model. Raises ModelNotReady, or ModelNotFound, also for a hidden model."""
    model = dataplane.described(name, version)
    if is_hidden(model.settings):
        raise ModelNotFound(name, version)
    return model


def find_text_interface(admission: Admission) -> TextInterface | None:
    """Return the text interface of a model, or None without one. Raises ModelNotFound for a hidden model."""
    interface = admission.facet(TextInterface)
    if interface is not None:
        interface.limits = admission.limits  # server settings, which are not part of the facet
    elif is_hidden(admission.settings):
        raise ModelNotFound(admission.model, admission.version)
    return interface


def list_text_models(dataplane: ServerModels, caller: Caller) -> list[tuple[str, Faceted[TextInterface]]]:
    """Return each version of the models that take text, with the names that clients use."""
    return [
        (f"{model.name}:{model.version}" if versioned else model.name, model)
        for model in dataplane.faceted(TextInterface, caller)
        if model.facet.listed
        for versioned in ((False, True) if model.default and model.version else (not model.default,))
    ]
