"""Functions for a server's repository and settings under MLServer's names."""

import json

from inferstream.ext.hosting import install_aliases

install_aliases()


async def test_folder_settings_are_loaded(tmp_path) -> None:
    from mlserver.cli.serve import load_settings

    (tmp_path / "settings.json").write_text(json.dumps({"http_port": 1}))
    (tmp_path / "model-settings.json").write_text(json.dumps({"name": "m", "implementation": "a.B"}))
    settings, models = await load_settings(str(tmp_path))
    assert (settings.http_port, [model.name for model in models]) == (1, ["m"])
