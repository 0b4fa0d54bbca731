"""An ONNX Runtime session for one model file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime


class ONNXModel:
    """Runs the model in a `.onnx` file, by default on the CPU."""

    def __init__(
        self, model_path: str | Path, providers: Sequence[Any] | None = None, session_options: Any = None
    ) -> None:
        self._session = onnxruntime.InferenceSession(
            str(model_path),
            sess_options=session_options,
            providers=list(providers) if providers else ["CPUExecutionProvider"],
        )
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._outputs = [each.name for each in self._session.get_outputs()]

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [*self._inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return [*self._outputs]

    def predict(self, *inputs: Any) -> list[Any]:
        """Run the model on inputs in order and return all outputs.

        Raises ValueError for the wrong number of inputs.
        """
        if len(inputs) != len(self._inputs):
            raise ValueError(f"Expected {len(self._inputs)} inputs ({self._inputs}), got {len(inputs)}")
        outputs: list[Any] = self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=True)))
        return outputs

    def predict_dict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Run the model on inputs by name and return all outputs by name."""
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))
