"""Stubs that cannot be written."""

import pytest

from inferstream import App
from inferstream.errors import InvalidSettings
from inferstream.plugins.tools.stub.source import generate_stub


def test_two_methods_with_same_name_are_refused() -> None:
    app = App()

    for version in ("1", "2"):

        @app.model("add", version=version)
        def add() -> None: ...

    @app.model
    def add_1() -> None: ...

    with pytest.raises(InvalidSettings, match=r'add_1: a stub would have two methods of the name "add_1"'):
        generate_stub(app, "here:app")
