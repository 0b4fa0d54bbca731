"""Stages of other packages, which join by entry points."""

from ...extensions import leave_out
from .base import Pipeline, Shared


def joined(model: Pipeline, shared: Shared) -> Pipeline:
    """Put the stages around a model, the first innermost. Raises InvalidSettings for a wrong one in strict mode."""
    for plugin, factory in shared.joined:
        try:
            added = factory(model, shared)
        except Exception as error:
            leave_out(plugin, error, shared.settings.strict)
            continue
        if isinstance(added, Pipeline):
            model = added
        else:
            reason = f"it returned a {type(added).__name__} for model {model.settings.name}, not a Pipeline"
            leave_out(plugin, reason, shared.settings.strict)
    return model
