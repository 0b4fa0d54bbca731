"""Every example that the OpenAPI document and the page offer is accepted, for all runtimes and examples."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.artefacts import graphs, models
from tests.e2e.page.conftest import address, run
from tests.serving import Running

EXAMPLES = Path(__file__).parents[3] / "examples"

ARTEFACTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "array": ("sklearn", lambda folder: models.dumped(models.classifier(), folder)),
    "frame": ("sklearn", lambda folder: models.dumped(models.frame_classifier(), folder)),
    "pipeline": ("sklearn", lambda folder: models.dumped(models.frame_pipeline(), folder)),
    "scaler": ("sklearn", lambda folder: models.dumped(models.frame_scaler(), folder)),
    "regressor": ("sklearn", lambda folder: models.dumped(models.regressor(), folder)),
    "forest": ("sklearn", lambda folder: models.dumped(models.forest(), folder)),
    "texts": ("sklearn", lambda folder: models.dumped(models.text_classifier(), folder)),
    "xgboost": ("xgboost", lambda folder: models.boosted("XGBClassifier", folder, "model.json")),
    "xgboost-frame": ("xgboost", models.boosted_frames),
    "lightgbm": ("lightgbm", models.light),
    "lightgbm-frame": ("lightgbm", models.light_frames),
    "onnx": ("onnx", graphs.classifier),
}


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("runtimes") / "models"
    for name, (implementation, save) in ARTEFACTS.items():
        (root / name).mkdir(parents=True)
        save(root / name)
        settings = {"name": name, "implementation": implementation}
        (root / name / "model-settings.json").write_text(json.dumps(settings))
    running = Running(root, within=120)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    link = tmp_path_factory.mktemp("served") / "examples"
    link.symlink_to(EXAMPLES)
    running = Running(link, within=120)
    yield running
    assert running.stop() == 0, running.text()


def call_examples(server: Running, model: str) -> list[str]:
    """Send each example of the OpenAPI document that a model's methods accept."""
    document = httpx.get(f"{server.url}/v2/models/{model}/docs/dataplane.json").json()
    facts = document["info"]["x-model"]
    actions = ["infer", "generate"] if facts["predict"] else []
    actions += ["infer_stream", "generate_stream"] if facts["streams"] else []
    faults = []
    for action in actions:
        body = document["paths"][f"/v2/models/{model}/{action}"]["post"]["requestBody"]
        example = body["content"]["application/json"]["example"]
        response = server.infer(model, example, action=action)
        if response.status_code != 200 or '"error"' in response.text:
            faults.append(f"{action}: {response.text[:300]}")
    return faults


@pytest.mark.parametrize("model", ARTEFACTS)
def test_openapi_examples_of_a_runtime(runtimes: Running, model: str) -> None:
    assert call_examples(runtimes, model) == []


@pytest.mark.parametrize("model", ARTEFACTS)
def test_form_of_a_runtime(runtimes: Running, visit: Callable[..., Any], model: str) -> None:
    page = visit(address(runtimes, model))
    run(page)
    assert page.locator(".card.result .note").get_attribute("data-state") == "done", page.inner_text("main")
    assert (
        page.locator(".description").count() == 0
    )  # the docstring of the runtime does not describe the model


def test_examples_of_this_repository(examples: Running, visit: Callable[..., Any]) -> None:
    index = httpx.post(f"{examples.url}/v2/repository/index", json={}).json()
    names = [each["name"] for each in index if each["state"] == "READY"]
    assert len(names) >= 7, index
    faults = {name: found for name in names if (found := call_examples(examples, name))}
    assert faults == {}
    for name in names:
        page = visit(address(examples, name, tab="form"))
        run(page)
        state = page.locator(".card.result .note").get_attribute("data-state")
        assert state == "done", (name, page.inner_text("main"))
        page.context.close()
