"""Requests over REST, for routes of a model's own."""

from starlette.requests import Request

__all__ = ["Request"]
