"""One server for all clients."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Running

MODELS = {
    "echo": "surface_models.Echo",
    "spare": "surface_models.Echo",
    **{
        name: f"surface_models:app/{name}"
        for name in ("words", "embed", "rank", "hear", "speak", "city", "draw")
    },
}


@pytest.fixture(scope="session")
def surface(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("surface") / "models"
    for name, implementation in MODELS.items():
        (folder / name).mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("surface_models.py"), folder / name)
        settings = {"name": name, "implementation": implementation}
        (folder / name / "model-settings.json").write_text(json.dumps(settings))
    (folder / "settings.json").write_text(json.dumps({"default_model": "words"}))
    running = Running(folder, within=60)
    yield running
    assert running.stop() == 0, running.text()
