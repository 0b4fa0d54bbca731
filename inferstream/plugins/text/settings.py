"""Settings of text models."""

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
    """Settings for text routes, chat templates, tool calls and reasoning."""

    openai: bool | None = None
    """Serve the model on the text routes (`/v1`, `/generate`). If null: only if the model takes a BYTES input
    and returns text or vectors."""

    chat_template: str | None = None
    """Jinja template that converts chat messages to a prompt, or the path of its file. If null: the template
    of the tokenizer in the model's folder."""

    tool_format: ToolFormat | None = None
    """Format of tool calls in the model's output. If null: detected from the chat template."""

    reasoning_format: ReasoningFormat | None = None
    """Format of reasoning in the model's output: `think` for `<think>` and `</think>`, `think_open` if
    `<think>` is part of the prompt, or a model family. If null: detected from the chat template."""
