"""`server keys` in a folder of its own."""

import pytest
from typer.testing import CliRunner

from inferstream.ext.hosting import command_line as app


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, ["keys", *arguments])
        assert result.exit_code == code, result.output
        return result.output if code else result.stdout

    return run
