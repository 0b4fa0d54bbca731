"""Shared memory for tests of regions."""

import os
import uuid
from collections.abc import Iterator

import pytest

from inferstream.plugins.triton.regions import FOLDER

from .shared_regions import VALUES


@pytest.fixture
def key() -> Iterator[str]:
    name = f"tests-{uuid.uuid4().hex}"
    with open(f"{FOLDER}/{name}", "wb") as file:
        file.write(VALUES.tobytes() + bytes(48))
    yield f"/{name}"
    os.unlink(f"{FOLDER}/{name}")
