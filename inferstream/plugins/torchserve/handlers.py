"""`BaseHandler`: a PyTorch model with three steps that subclasses override."""

import logging
from pathlib import Path
from typing import Any

from inferstream.errors import InvalidSettings
from inferstream.ext.runtimes import import_from

from .calls import list_classes_from_module, load_label_mapping
from .context import HandlerContext

logger = logging.getLogger("inferstream.torchserve")


class BaseHandler:
    """Loads and runs a TorchScript (`.pt`) or ONNX model, or the class in `modelFile` with its weights."""

    def __init__(self) -> None:
        self.model: Any = None
        self.mapping: dict[str, str] | None = None
        self.device: Any = None
        self.initialized = False
        self.context: Any = None
        self.model_pt_path: str | None = None
        self.manifest: Any = None
        self.map_location: str | None = None
        self.model_yaml_config: Any = {}
        self.explain = False
        self.target = 0

    def initialize(self, context: HandlerContext) -> None:
        """Load the model that the manifest names. Raises InvalidSettings if the archive has none."""
        import torch

        properties = context.system_properties
        gpu = properties.get("gpu_id")
        self.map_location = "cuda" if gpu is not None and torch.cuda.is_available() else "cpu"
        self.device = torch.device("cpu" if self.map_location == "cpu" else f"cuda:{gpu}")
        self.manifest = context.manifest
        self.model_yaml_config = context.model_yaml_config
        if "pt2" in self.model_yaml_config:
            logger.warning("model %s: the setting pt2 has no effect", context.model_name)
        folder = Path(properties["model_dir"])
        described = self.manifest["model"]
        weights = described.get("serializedFile")
        self.model_pt_path = None if weights is None else str(folder / weights)
        if model_file := described.get("modelFile"):
            self.model = self._load_pickled_model(str(folder), model_file, self.model_pt_path)
            self.model.to(self.device)
            self.model.eval()
        elif self.model_pt_path is not None and self.model_pt_path.endswith(".pt"):
            self.model = self._load_torchscript_model(self.model_pt_path)
            self.model.eval()
        elif self.model_pt_path is not None and self.model_pt_path.endswith(".onnx"):
            import onnxruntime

            self.model = onnxruntime.InferenceSession(self.model_pt_path, providers=["CPUExecutionProvider"])
        else:
            raise InvalidSettings("the archive has neither a modelFile nor a serializedFile .pt or .onnx")
        self.mapping = load_label_mapping(str(folder / "index_to_name.json"))
        self.initialized = True

    def _load_torchscript_model(self, model_pt_path: str) -> Any:
        import torch

        return torch.jit.load(model_pt_path, map_location=self.device)

    def _load_pickled_model(self, model_dir: str, model_file: str, model_pt_path: str | None) -> Any:
        """Instantiate the only class in `model_file` and load its weights. Raises InvalidSettings."""
        import torch

        module = import_from(Path(model_dir), model_file.partition(".")[0])
        kinds = list_classes_from_module(module)
        if len(kinds) != 1:
            raise InvalidSettings(f"{model_file} has {len(kinds)} classes; TorchServe takes the only one")
        model = kinds[0]()
        if model_pt_path:
            weights = torch.load(model_pt_path, map_location=self.device, weights_only=True)
            model.load_state_dict(weights)
        return model

    def preprocess(self, data: list[Any]) -> Any:
        """Convert a batch to a tensor."""
        import torch

        return torch.as_tensor(data, device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the tensor of a batch."""
        import torch

        with torch.inference_mode():
            return self.model(data.to(self.device), *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """Convert the output to a list with one result per row."""
        answers: list[Any] = data.tolist()
        return answers

    def handle(self, data: list[Any], context: HandlerContext) -> list[Any]:
        """Process a batch and return its results."""
        self.context = context
        return self.postprocess(self.inference(self.preprocess(data)))

    def _is_explain(self) -> bool:
        return False

    def get_device(self) -> Any:
        return self.device
