"""The cases, a file for each part of the RFCs."""

from ..case import Case
from . import compression, flow, frames, framing, messages, streams

CASES: list[Case] = [
    *framing.CASES,
    *streams.CASES,
    *frames.CASES,
    *flow.CASES,
    *messages.CASES,
    *compression.CASES,
]
