"""The application in replicas of a Ray Serve deployment. Only this room imports Ray."""

from .autoscaling import by_utilization
from .deployment import application

__all__ = ["application", "by_utilization"]
