"""Variables of the environment that no setting reads."""

from pathlib import Path

import pytest

from inferstream.settings.variables import unknown_variables


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("INFERSTREAM_PARALEL_WORKERS", "; did you mean INFERSTREAM_PARALLEL_WORKERS?"),
        ("MLSERVER_HTTP_PROT", "; did you mean MLSERVER_HTTP_PORT?"),
        ("inferstream_frontend", "; did you mean INFERSTREAM_FRONTENDS?"),
        ("INFERSTREAM_ZZZZ", ""),
        ("INFERSTREAM_PORT", "; did you mean INFERSTREAM_HTTP_PORT?"),
        ("INFERSTREAM_HTPP_PORT", "; did you mean INFERSTREAM_HTTP_PORT?"),
        ("INFERSTREAM_WORKERS", "; did you mean INFERSTREAM_PARALLEL_WORKERS?"),
        ("MLSERVER_WORKERS", "; did you mean MLSERVER_PARALLEL_WORKERS?"),
        ("INFERSTREAM_LOG_JSON", "; did you mean INFERSTREAM_USE_STRUCTURED_LOGGING?"),
        ("INFERSTREAM_MODEL_MAX_BATCHSIZE", "; did you mean INFERSTREAM_MODEL_MAX_BATCH_SIZE?"),
    ],
)
def test_misspelt_variable_gets_a_suggestion(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.setattr("os.environ", {name: "1"})
    assert list(unknown_variables()) == [f"{name} is unknown and ignored{said}"]


def test_names_in_the_dotenv_file_are_checked(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("INFERSTREAM_HOTS=x\nINFERSTREAM_HOST=y\nOTHER=z\n")
    assert list(unknown_variables()) == [
        "INFERSTREAM_HOTS is unknown and ignored; did you mean INFERSTREAM_HOST?"
    ]


def test_foreign_variables_are_not_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "INFERSTREAM_HTTP_PORT", "mlserver_debug", "MLSERVER_MODEL_NAME", "MLSERVER_MODEL_URI",
        "INFERSTREAM_INFER_MODEL_NAME", "MLSERVER_MODELS_DIR", "MLSERVER_PATH", "MLSERVER_ENV_TARBALL",
        "INFERSTREAM_CUSTOM_REST_SERVER_SETTINGS", "MLSERVER_MODEL_HUGGINGFACE_TASK", "MLSERVER_ALLOW_ORIGINS",
        "MLSERVER_MODEL_IMPLEMENTATION", "INFERSTREAM_MODEL_IMPLEMENTATION",
        "INFERSTREAM_SERVICE_HOST", "INFERSTREAM_SERVICE_PORT_HTTP", "INFERSTREAM_PORT",
        "INFERSTREAM_PORT_8080_TCP_ADDR", "MLSERVER_MODELS_SERVICE_HOST", "PATH", "HOME",
    )  # fmt: skip
    values = {**dict.fromkeys(names, "1"), "INFERSTREAM_PORT": "tcp://10.0.0.1:8080"}
    monkeypatch.setattr("os.environ", values)
    assert list(unknown_variables()) == []
