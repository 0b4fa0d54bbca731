"""Stages of plug-ins."""

from ...extensions import Plugin, leave_out
from .base import Pipeline, Shared, StageFactory


def joined(plugin: Plugin, factory: StageFactory) -> StageFactory:
    """The stage of a plug-in, left out if it fails. Raises the errors of ours, and InvalidSettings in strict mode."""

    def join(model: Pipeline, shared: Shared) -> Pipeline:
        try:
            added = factory(model, shared)
        except Exception as error:
            leave_out(plugin, error, shared.settings.strict)
            return model
        if not isinstance(added, Pipeline):
            reason = f"it returned a {type(added).__name__} for model {model.settings.name}, not a Pipeline"
            leave_out(plugin, reason, shared.settings.strict)
            return model
        return added

    return join
