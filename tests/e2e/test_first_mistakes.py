"""What the server says of models with the mistakes that are made first: a line that names what is wrong."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.serving import Running, tensor, write_model

HEAD = "from inferstream import MLModel\n\n\nclass Model(MLModel):\n"
ECHO = HEAD + "    def predict(self, payload):\n        return 'x'\n"

FUNCTION = "# a file\n# of\n# a\n# user\ndef function(x: str) -> str:\n    return 7\n"

MISTAKES = {
    "neither": (
        "model.Model",
        HEAD + "    def infer(self, payload):\n        return 'x'\n",
        "class Model has neither predict nor predict_stream: write def predict(self, payload)",
    ),
    "without-self": (
        "model.Model",
        HEAD + "    def predict(payload):\n        return 'x'\n",
        "model.py, line 5, function Model.predict: it cannot be called with a request: write "
        "predict(self, payload)",
    ),
    "without-anything": (
        "model.Model",
        HEAD + "    async def predict_stream():\n        yield 'x'\n",
        "function Model.predict_stream: it cannot be called with a request: write predict_stream(self, payloads)",
    ),
    "constructor": (
        "model.Model",
        ECHO + "\n    def __init__(self):\n        self.x = 1\n",
        "model.py, line 8, function Model.__init__: it must take the settings: write def __init__(self, settings)",
    ),
    "base": (
        "model.Model",
        ECHO + "\n    def __init__(self, settings):\n        self.x = 1\n",
        "function Model.__init__: write super().__init__(settings) in its first line",
    ),
    "file": ("./model.py:Model", ECHO, 'names a file: write module.Class, which is "model.Model"'),
    "file-in-folder": (
        "code/model.py",
        ECHO,
        'names a file: write module.Class, which is "code.model.Class"',
    ),
    "colon": ("model:Model", ECHO, 'implementation "model:Model" names a class: write "model.Model"'),
    "class": (
        "model.Modell",
        ECHO,
        'implementation "model.Modell": module model has no class Modell; it has Model',
    ),
    "module": (
        "modle.Model",
        ECHO,
        "there is no module modle beside model-settings.json, and none is installed",
    ),
    "artefact": (
        "mlserver_sklearn.SKLearnModel",
        None,
        "(nope.joblib): there is no such file or folder, relative to model-settings.json",
    ),
}


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("mistakes") / "models"
    for name, (implementation, code, _) in MISTAKES.items():
        more = {"parameters": {"uri": "nope.joblib"}} if code is None else {}
        folder = write_model(root, name, "model.Model", code, **more)
        settings = folder / "model-settings.json"
        settings.write_text(settings.read_text().replace("model.Model", implementation))
    write_model(root, "number", "model.Model", ECHO.replace("'x'", "7"))
    write_model(root, "function", "model.function", FUNCTION)
    (root / "settings.json").write_text(f'{{"parallel_workers": {workers}}}')
    running = Running(root)
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("model", MISTAKES)
def test_mistake_is_one_line(served: Running, model: str) -> None:
    said = MISTAKES[model][2]
    logged = [line for line in served.text().splitlines() if f"Model {model} did not load: " in line]
    assert len([line for line in logged if " ERROR - " in line]) == 1
    assert all(said in line for line in logged), logged
    index = httpx.post(f"{served.url}/v2/repository/index").json()
    assert said in next(each["reason"] for each in index if each["name"] == model)


@pytest.mark.parametrize(("model", "place"), [("number", "in predict"), ("function", "in function")])
def test_wrong_result_type_is_logged_with_code_location(served: Running, model: str, place: str) -> None:
    refused = served.infer(model, {"inputs": [tensor("x", "BYTES", ["a"])]})
    assert refused.status_code == 500
    assert ".py" not in refused.text
    assert re.search(
        rf'InvalidOutput: .*\n +File "{served.folder}/{model}/model.py", line 5, {place}', served.text()
    )


def test_errors_have_no_server_traceback(served: Running) -> None:
    assert "Traceback" not in served.text()
