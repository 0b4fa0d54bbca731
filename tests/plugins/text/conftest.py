"""What tests of text share."""

from collections.abc import Iterator

import pytest

from tests.plugins.text.responses import responses_of


@pytest.fixture(scope="package", autouse=True)
def item_server() -> Iterator[None]:
    with responses_of:
        yield
