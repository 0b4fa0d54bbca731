"""What the dataplane says of the server."""

from typing import cast

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.serving import Serving
from inferstream.settings import Settings


@pytest.mark.parametrize(("front_ends", "there"), [(1, True), (2, False)])
def test_sequence_extension_requires_a_single_front_end(front_ends: int, there: bool) -> None:
    class Registry:
        def __getattr__(self, _: str) -> object:
            return lambda *_: ()

    settings = Settings(frontends=front_ends)
    dataplane = DataPlane(settings, cast(Serving, Registry()), Authority(settings))
    extensions = dataplane.server_metadata().extensions
    assert ("sequence" in extensions, "sequence(string_id)" in extensions) == (there, there)
    assert "statistics" in extensions
