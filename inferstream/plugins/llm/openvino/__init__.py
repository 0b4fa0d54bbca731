"""Language models run by OpenVINO GenAI on a CPU. The library is imported when a model loads."""

from .model import OpenVino

__all__ = ["OpenVino"]
