"""MLServer's public names are there under its own imports, and nothing heavy comes with them."""

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from inferstream.errors import ModelError
from inferstream.ext.hosting import install_aliases
from inferstream.plugins.mlserver.names import MODULES
from tests.aliases import is_replaced

NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("mlserver_names.json").read_text())
"""Every public name of every module of MLServer 1.7.1, as its wheel defines them."""

SIGNATURES: dict[str, str] = json.loads(Path(__file__).with_name("mlserver_signatures.json").read_text())
"""The parameters of its functions, methods and classes, of those that can be used here."""

ADDED = {
    "mlserver.errors": "ModelLoadError ModelUnloadError ModelValidationError",
    "mlserver.logging": "get_log_level",
    "mlserver.utils": "get_normalized_version",
}
"""Names that Open Data Hub's MLServer adds."""

PRIVATE = {
    "mlserver.batching.requests": "_merge_parameters",
    "mlserver.codecs.base": "_codec_registry",
    "mlserver.codecs.numpy": "_encode_data _to_ndarray",
    "mlserver.codecs.utils": "_save_decoded",
}
"""What runtimes written for it import besides."""

MIGRATION = Path(__file__).parents[3] / "docs" / "mlserver-compatibility.md"


@pytest.fixture(autouse=True)
def _installed() -> None:
    install_aliases()


def test_table_has_each_name_once_and_every_module() -> None:
    names = [(module, name) for module, entries in MODULES.items() for name in entries]
    assert len(names) == len({*names})
    kinds = ("sklearn", "xgboost", "lightgbm", "catboost", "onnx")
    runtimes = {f"mlserver_{kind}{part}" for kind in kinds for part in ("", f".{kind}", ".version")}
    runtimes |= {"mlserver_mlflow", "mlserver_mlflow.runtime", "mlserver_mlflow.version"}
    assert {*MODULES} == {*NAMES} | runtimes


def test_classes_of_runtimes_are_awaited() -> None:
    for path in (
        "mlserver_sklearn.SKLearnModel",
        "mlserver_catboost.CatboostModel",
        "mlserver_onnx.OnnxModel",
        "mlserver_mlflow.MLflowRuntime",
    ):
        module, _, name = path.partition(".")
        runtime = getattr(importlib.import_module(module), name)
        assert inspect.iscoroutinefunction(runtime.predict), path


@pytest.mark.parametrize("module", NAMES)
def test_every_name_exists(module: str) -> None:
    found = importlib.import_module(module)
    for name in [*NAMES[module], *PRIVATE.get(module, "").split(), *ADDED.get(module, "").split()]:
        assert hasattr(found, name), f"{module}.{name}"


def test_unsupported_names_are_listed_with_replacement() -> None:
    replaced = {}
    for module, names in NAMES.items():
        found = importlib.import_module(module)
        for name in names:
            value = getattr(found, name)
            if is_replaced(value):
                replaced[name] = value.instead
    assert documented() == replaced


def documented() -> dict[str, str]:
    """The rows of the page's last table: names, and what to use instead."""
    section = MIGRATION.read_text().partition("## Names without an implementation")[2]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    return {name: instead for names, instead in rows for name in re.findall(r"`(\w+)`", names)}


def test_unknown_mlserver_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        from mlserver.rest.endpoints import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        import mlserver.rest.no_such_module  # noqa: F401


def test_classes_are_identical_under_both_names() -> None:
    import mlserver
    import mlserver.types

    import inferstream
    import inferstream.types

    assert mlserver.ModelSettings is inferstream.ModelSettings
    assert mlserver.types.InferenceRequest is inferstream.types.InferenceRequest


def test_models_can_select_outputs() -> None:
    import mlserver.model

    import inferstream

    assert mlserver.MLModel is mlserver.model.MLModel
    assert issubclass(mlserver.MLModel, inferstream.MLModel)
    assert mlserver.MLModel.selects_outputs is None


def test_errors_keep_status() -> None:
    from mlserver.errors import InferenceError, MLServerError, ModelParametersMissing

    assert MLServerError("no tea", status_code=418).status_code == 418
    assert MLServerError("no").status_code == 400
    assert MLServerError(msg="gone", status_code=404).status_code == 404
    assert isinstance(InferenceError("bad"), ModelError)
    assert ModelParametersMissing("m").status_code == 400


def test_names_of_open_data_hub_keep_their_meaning() -> None:
    from mlserver import __version__
    from mlserver.errors import MLServerError, ModelLoadError, ModelUnloadError, ModelValidationError
    from mlserver.logging import get_log_level, logger
    from mlserver.utils import get_normalized_version

    errors = {ModelLoadError: 422, ModelValidationError: 422, ModelUnloadError: 500}
    assert {kind: kind("no").status_code for kind in errors} == errors
    assert all(issubclass(kind, MLServerError) for kind in errors)
    assert get_log_level() == logger.getEffectiveLevel()
    assert get_normalized_version("1.7.1+odh.8") == "1.7.1"
    assert get_normalized_version() == __version__


def test_codec_and_uri_errors_are_caught_under_mlserver_names() -> None:
    from mlserver.codecs.errors import CodecError, CodecNotFound, InputsNotFound, OutputNotFound
    from mlserver.errors import InvalidModelURI, MLServerError

    errors = [
        CodecError(msg="no"),
        CodecNotFound("x"),
        InputsNotFound(inputs=(), input_hints={"a": int}),
        OutputNotFound(output_idx=0, output_type=int, output_hints=[str]),
    ]
    for error in errors:
        assert isinstance(error, MLServerError)
        assert error.status_code == 400
    assert isinstance(InvalidModelURI(name="m", model_uri="u"), MLServerError)
    assert InvalidModelURI("m").status_code == 422
    assert str(errors[2]) == "The request has no input for: a (int)."


def test_server_errors_are_caught_under_mlserver_names() -> None:
    from mlserver.errors import MLServerError, ModelNotFound, ModelNotReady

    from inferstream.errors import ModelLoadFailed

    for error, status in {
        ModelNotFound(name="m", version="v"): 404,
        ModelNotReady("m"): 400,
        ModelLoadFailed("no"): 500,
        ModelLoadFailed("no", 418): 418,
    }.items():
        assert isinstance(error, MLServerError)
        assert error.status_code == status


def test_models_import_no_web_framework_and_finder_is_lazy() -> None:
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('mlserver') is None\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases(); install_aliases()\n"
        "from mlserver import MLModel; from mlserver.codecs import decode_args\n"
        "assert not {'fastapi', 'grpc', 'pandas', 'prometheus_client'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_installed_package_takes_precedence(tmp_path) -> None:
    (tmp_path / "mlserver").mkdir()
    (tmp_path / "mlserver" / "__init__.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "import mlserver; assert mlserver.real\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_headers_convert_to_and_from_parameters() -> None:
    from mlserver.types import InferenceRequest, InferenceResponse, Parameters
    from mlserver.utils import extract_headers, insert_headers

    request = insert_headers(InferenceRequest(inputs=[]), {"x": "y"})
    assert request.parameters.headers == {"x": "y"}
    response = InferenceResponse(model_name="m", outputs=[], parameters=Parameters(headers={"a": "b"}))
    assert extract_headers(response) == {"a": "b"}
    assert response.parameters.headers is None
    assert extract_headers(response) is None
    response.parameters.headers = {}
    assert (extract_headers(response), response.parameters.headers) == ({}, None)


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_have_mlserver_names(name: str) -> None:
    """Each can be given by keyword, and those given by position are in the same order."""
    names = SIGNATURES[name].split()
    ours = signature(pkgutil.resolve_name(name)).parameters.values()
    assert any(each.kind is each.VAR_KEYWORD for each in ours) or {*names} <= {each.name for each in ours}
    shared = [each.name for each in ours if each.name in names]
    assert shared == [each for each in names if each in shared]
