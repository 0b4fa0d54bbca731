"""Settings of models that take text."""

from typing import Literal

from inferstream.ext.settings import Section

JsonFormat = Literal[
    "hermes", "mistral", "llama", "cohere", "deepseek", "granite", "kimi", "minimax_m1", "phi"
]
OtherFormat = Literal["hunyuan", "nemotron", "xlam", "deepseek_v32", "gemma"]
ToolFormat = Literal[JsonFormat, OtherFormat, "qwen_coder", "glm", "minimax", "pythonic", "harmony", "none"]
ReasoningFormat = Literal[
    "think", "think_open", "cohere", "gemma", "granite", "hunyuan", "mistral", "seed", "none"
]


class TextSettings(Section):
    """Which models take text, how prompts are made, and how calls and reasoning are found in the text of a model."""

    openai: bool | None = None
    """Whether the text routes (`/v1`, `/generate`) serve the model. If absent: whether it takes a BYTES input and
    returns texts or vectors."""

    chat_template: str | None = None
    """Jinja template that makes a prompt of chat messages, or the path of its file. If absent: that of the tokenizer in
    the model's folder."""

    tool_format: ToolFormat | None = None
    """How the model writes tool calls in its text. If absent: what its chat template shows."""

    reasoning_format: ReasoningFormat | None = None
    """How the model writes reasoning: between `<think>` and `</think>`, of which `think_open` has the first in its
    prompt, or as another family. If absent: what its chat template shows."""
