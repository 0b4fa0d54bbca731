"""Settings, and the functions for them, under MLServer's names."""

import hashlib
import json

from inferstream.ext.hosting import install_aliases

install_aliases()


async def test_hashes_are_sha256(tmp_path) -> None:
    from mlserver.env import compute_hash_of_file, compute_hash_of_string

    (tmp_path / "file").write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert await compute_hash_of_file(str(tmp_path / "file")) == expected
    assert await compute_hash_of_string("abc") == expected


def test_settings_keep_source_file_and_dump_set_fields(tmp_path) -> None:
    from mlserver import ModelSettings, Settings

    file = tmp_path / "model-settings.json"
    file.write_text(json.dumps({"implementation": "a.B"}))
    settings = ModelSettings.parse_file(str(file))
    assert settings.source == str(file)
    assert settings.dict() == {"implementation": "a.B"}
    assert ModelSettings.parse_obj({"implementation": "a.B", "_source": "/x"}).source == "/x"
    assert json.loads(Settings.parse_raw('{"http_port": 1}').json()) == {"http_port": 1}


def test_load_model_settings_completes_name_and_uri_from_folder(tmp_path, monkeypatch) -> None:
    install_aliases()
    from mlserver.repository.load import load_model_settings as theirs

    path = tmp_path / "iris" / "model-settings.json"
    path.parent.mkdir()
    path.write_text('{"implementation": "model.Iris"}')
    monkeypatch.chdir(path.parent)
    for given in (str(path), "model-settings.json"):
        settings = theirs(given)
        assert settings.name == "iris"
        assert settings.parameters.uri == str(path.parent)
        assert settings.source == str(path)
    path.write_text('{"implementation": "model.Iris", "name": "rose", "parameters": {"uri": "./x"}}')
    settings = theirs(str(path))
    assert (settings.name, settings.parameters.uri) == ("rose", "./x")
