"""Typed clients of apps that were written for another server."""

from inferstream import compat
from inferstream.plugins.tools.stub.source import generate_stub

compat.install()

from blazerpc import BlazeApp


def test_stub_accepts_any_array() -> None:
    app = BlazeApp()
    app.model("free")(lambda image: image)
    assert "def free(self, image: npt.NDArray[Any]) -> npt.NDArray[Any] | None:" in generate_stub(
        app, "app:app"
    )
