"""Requests that run as one."""

from .adaptive import AdaptiveBatcher
from .hooks import load_batching
from .requests import BatchedRequests

__all__ = ["AdaptiveBatcher", "BatchedRequests", "load_batching"]
