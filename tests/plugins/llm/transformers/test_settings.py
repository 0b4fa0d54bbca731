"""A language model without torch: its settings, and what its load says."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.plugins.llm.transformers import CausalLM
from inferstream.plugins.llm.transformers.settings import LanguageSettings
from inferstream.testing import run


def test_invalid_settings_are_named() -> None:
    assert LanguageSettings().prefix_tokens > 0
    with pytest.raises(ValueError, match="dtyp\n  Extra inputs"):
        LanguageSettings(dtyp="float32")
    with pytest.raises(ValueError, match="prefill_budget"):
        LanguageSettings(prefill_budget=0)


def test_runtime_names_do_not_import_torch() -> None:
    code = (
        "import sys, inferstream.plugins.llm.transformers; "
        "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["torch", "transformers"])
async def test_load_error_names_package_to_install(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None if missing == "torch" else ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    settings = ModelSettings(name="m", implementation=CausalLM, parameters={"uri": str(tmp_path)})
    with pytest.raises(ModelLoadFailed, match=rf'needs {missing}, .* hint: pip install "accelerate'):
        async with run(settings):
            pass
