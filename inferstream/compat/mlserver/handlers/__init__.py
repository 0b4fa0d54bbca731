"""REST routes of a model's own, and what answers the others."""

from inferstream.handlers import custom_handler, get_custom_handlers

from .dataplane import DataPlane
from .model_repository import ModelRepositoryHandlers

__all__ = ["DataPlane", "ModelRepositoryHandlers", "custom_handler", "get_custom_handlers"]
