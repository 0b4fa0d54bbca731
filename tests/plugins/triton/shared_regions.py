"""Shared memory, its regions, and requests that name them."""

import os
from pathlib import Path

import numpy as np
import pytest

from inferstream import Settings
from inferstream.ext.calls import Caller, Peers
from inferstream.plugins.triton.regions import FOLDER, Regions
from inferstream.types import (
    Headers,
    InferenceRequest,
    Parameters,
    RequestInput,
    RequestOutput,
)

SKIP = pytest.mark.skipif(not os.path.isdir(FOLDER), reason="this system has no /dev/shm")

VALUES = np.arange(4, dtype=np.float32)


def regions(peers: Peers | None = None, **settings: object) -> Regions:
    return Regions(Settings(**settings), peers or Peers())


def content(key: str) -> bytes:
    return Path(f"{FOLDER}{key}").read_bytes()


def caller(principal: str | None = None) -> Caller:
    made = Caller(Headers([]), "rest")
    made.principal = principal
    return made


def parameters(size: object = 16, offset: object = 0, name: object = "r") -> Parameters:
    return Parameters(shared_memory_region=name, shared_memory_byte_size=size, shared_memory_offset=offset)


def asking(outputs: list[RequestOutput] | None = None, **place: object) -> InferenceRequest:
    tensor = RequestInput(
        name="x", shape=[4], datatype="FP32", data=[], parameters=parameters(**place) if place else None
    )
    return InferenceRequest(inputs=[tensor], outputs=outputs)
