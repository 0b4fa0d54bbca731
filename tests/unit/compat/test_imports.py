"""MLServer's public names are there under its own imports, and nothing heavy comes with them."""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from inferstream import compat
from inferstream.compat.finder import Replaced
from inferstream.errors import ModelError

NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("mlserver_names.json").read_text())
"""Every public name of every module of MLServer 1.7.1, as its wheel defines them."""

SIGNATURES: dict[str, str] = json.loads(Path(__file__).with_name("mlserver_signatures.json").read_text())
"""The parameters of its functions, methods and classes, of those that can be used here."""

PRIVATE = {
    "mlserver.batching.requests": "_merge_parameters",
    "mlserver.codecs.base": "_codec_registry",
    "mlserver.codecs.numpy": "_encode_data _to_ndarray",
    "mlserver.codecs.utils": "_save_decoded",
}
"""What runtimes written for it import besides."""

MIGRATION = Path(__file__).parents[3] / "docs" / "migration.md"


@pytest.fixture(autouse=True)
def _installed() -> None:
    compat.install()


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in [*NAMES[module], *PRIVATE.get(module, "").split()]:
        assert hasattr(found, name), f"{module}.{name}"


def test_what_cannot_be_used_is_listed_with_what_to_use_instead() -> None:
    replaced = {}
    for module, names in NAMES.items():
        found = importlib.import_module(module)
        for name in names:
            value = getattr(found, name)
            if isinstance(value, type) and issubclass(value, Replaced):
                replaced[name] = value.instead
    assert documented() == replaced


def documented() -> dict[str, str]:
    """The rows of the page's last table: names, and what to use instead."""
    section = MIGRATION.read_text().partition("## What can be imported and not used")[2]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    return {name: instead for names, instead in rows for name in re.findall(r"`(\w+)`", names)}


def test_a_name_that_mlserver_does_not_have_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        from mlserver.rest.endpoints import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        import mlserver.rest.no_such_module  # noqa: F401


def test_classes_are_the_same_under_both_names() -> None:
    import mlserver
    import mlserver.types

    import inferstream
    import inferstream.types

    assert mlserver.ModelSettings is inferstream.ModelSettings
    assert mlserver.types.InferenceRequest is inferstream.types.InferenceRequest


def test_models_may_select_their_outputs() -> None:
    import mlserver.model

    import inferstream

    assert mlserver.MLModel is mlserver.model.MLModel
    assert issubclass(mlserver.MLModel, inferstream.MLModel)
    assert mlserver.MLModel.selects_outputs is None


def test_errors_keep_their_status() -> None:
    from mlserver.errors import InferenceError, MLServerError, ModelParametersMissing

    assert MLServerError("no tea", status_code=418).status_code == 418
    assert MLServerError("no").status_code == 400
    assert MLServerError(msg="gone", status_code=404).status_code == 404
    assert isinstance(InferenceError("bad"), ModelError)
    assert ModelParametersMissing("m").status_code == 400


def test_what_codecs_and_uris_fail_with_is_caught_under_mlservers_name() -> None:
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


def test_what_the_server_fails_with_is_caught_under_mlservers_name() -> None:
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


def test_models_pull_no_web_framework_in_and_nothing_is_found_before_it_is_asked_for() -> None:
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('mlserver') is None\n"
        "import inferstream.compat; inferstream.compat.install(); inferstream.compat.install()\n"
        "from mlserver import MLModel; from mlserver.codecs import decode_args\n"
        "assert not {'fastapi', 'grpc', 'pandas', 'prometheus_client'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_installed_package_goes_first(tmp_path) -> None:
    (tmp_path / "mlserver").mkdir()
    (tmp_path / "mlserver" / "__init__.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import mlserver; assert mlserver.real\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_headers_go_into_requests_and_come_out_of_responses() -> None:
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
def test_parameters_have_mlservers_names(name: str) -> None:
    """Each can be given by keyword, and those given by position are in the same order."""
    names = SIGNATURES[name].split()
    ours = signature(pkgutil.resolve_name(name)).parameters.values()
    assert any(each.kind is each.VAR_KEYWORD for each in ours) or {*names} <= {each.name for each in ours}
    shared = [each.name for each in ours if each.name in names]
    assert shared == [each for each in names if each in shared]
