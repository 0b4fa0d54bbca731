"""Metadata inputs and outputs of pipelines, as the MLServer runtime declares them."""

from inferstream.types import MetadataTensor, Parameters

SIMILARITY = "sentence-similarity"
"""A task on the Hugging Face Hub without a transformers pipeline."""

BY_ROW = frozenset(
    (
        "feature-extraction",
        "fill-mask",
        "question-answering",
        "sentiment-analysis",
        "summarization",
        "text-classification",
        "text-generation",
        "text2text-generation",
        "token-classification",
        "ner",
        "translation",
    )
)
"""Tasks with one result per row, so that requests can be batched."""

ROWS = frozenset(("args", "array_inputs", "context", "inputs", "question", "text_inputs"))
"""Inputs of these tasks that hold rows. All others are pipeline options."""

TEXT = (("BYTES", "str"),)
DOCUMENTS = (("BYTES", "hg_jsonlist"),)
AUDIO = (("BYTES", "str"), ("BYTES", "base64"), ("FP32", "nplist"))
IMAGES = (("BYTES", "str"), ("BYTES", "base64"), ("BYTES", "pillow_image"))

Kinds = tuple[tuple[str, str], ...]

INPUTS: dict[str, dict[str, Kinds]] = {
    "audio-classification": {"inputs": AUDIO},
    "automatic-speech-recognition": {"inputs": AUDIO},
    "feature-extraction": {"args": TEXT},
    "text-classification": {"args": TEXT},
    "token-classification": {"args": TEXT},
    "question-answering": {"context": TEXT, "question": TEXT},
    "table-question-answering": {"array_inputs": DOCUMENTS},
    "visual-question-answering": {"array_inputs": DOCUMENTS},
    "fill-mask": {"array_inputs": TEXT},
    "summarization": {"array_inputs": TEXT},
    "text-generation": {"array_inputs": TEXT},
    "text2text-generation": {"array_inputs": TEXT},
    "translation": {"array_inputs": TEXT},
    "zero-shot-classification": {"array_inputs": TEXT, "candidate_labels": TEXT},
    "zero-shot-image-classification": {"array_inputs": AUDIO, "candidate_labels": TEXT},
    "image-classification": {"inputs": IMAGES},
    "image-segmentation": {"inputs": IMAGES},
    "object-detection": {"inputs": IMAGES},
    SIMILARITY: {"source_sentence": TEXT, "sentences": TEXT},
}

OUTPUTS: dict[str, tuple[str, str, str]] = {
    "audio-classification": ("output_*", "BYTES", "hg_json"),
    "automatic-speech-recognition": ("output_*", "BYTES", "hg_json"),
    "feature-extraction": ("outputs", "FP64", "pd"),
    "text-classification": ("outputs", "BYTES", "hg_json"),
}


def declare_inputs(task: str) -> list[MetadataTensor]:
    """Return the inputs of a task, if MLServer declares any. An input may appear once per datatype."""
    return [
        _tensor(name, datatype, content)
        for name, kinds in INPUTS.get(task, {}).items()
        for datatype, content in kinds
    ]


def declare_outputs(task: str) -> list[MetadataTensor]:
    """Return the outputs that MLServer declares. Responses always have a single output named `output`."""
    return [_tensor(*OUTPUTS[task])] if task in OUTPUTS else []


def _tensor(name: str, datatype: str, content: str) -> MetadataTensor:
    return MetadataTensor(name=name, datatype=datatype, shape=[-1], parameters=Parameters.of(None, content))
