"""Stubs that cannot be written."""

import pytest

from inferstream import App
from inferstream.errors import InvalidSettings
from inferstream.tools.stub.source import stub_source


def test_two_methods_of_one_name_are_refused() -> None:
    app = App()

    for version in ("1", "2"):

        @app.model("add", version=version)
        def add() -> None: ...

    @app.model
    def add_1() -> None: ...

    with pytest.raises(InvalidSettings, match=r'add_1: a stub would have two methods of the name "add_1"'):
        stub_source(app, "here:app")
