"""Tables without data frames."""

from pathlib import Path

import pytest

from inferstream.runtimes import columns
from tests.artefacts import models
from tests.plugins.frameworks.test_columns import ROWS, asked, predicted
from tests.plugins.frameworks.test_estimators import served


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
async def test_table_is_an_array_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "find_spec", lambda name: None)
    model = await served(models.frame_classifier(), tmp_path)
    values = {name: ROWS[name].tolist() for name in reversed([*ROWS])}
    assert predicted(model, asked(values)) == [0, 1, 2]
