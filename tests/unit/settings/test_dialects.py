"""The setting that names a dialect takes those that are installed, with the message of a fixed list."""

import pytest
from pydantic import ValidationError

from inferstream import ModelSettings, Settings
from inferstream.settings import dialects

MODEL = {"name": "m", "implementation": "m.M"}


@pytest.mark.parametrize(("kind", "rest"), [(Settings, {}), (ModelSettings, MODEL)])
def test_only_installed_dialects_are_allowed(
    kind: type[Settings], rest: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects, "plugins", lambda group: {"triton": 1, "esperanto": 2})
    assert kind(grpc_stream_dialect="esperanto", **rest).grpc_stream_dialect == "esperanto"
    for wrong in ("klingon", 7, []):
        with pytest.raises(ValidationError) as refused:
            kind(grpc_stream_dialect=wrong, **rest)
        (fault,) = refused.value.errors()
        assert fault["msg"] == "Input should be 'mlserver', 'esperanto' or 'triton'"
