"""Metrics of model code's own."""

from inferstream import log, register

__all__ = ["log", "register"]
