"""Attention masks for streams at different positions in the shared cache."""

from typing import Any

import torch

FULL, SLIDING = "full_attention", "sliding_attention"


class Masks:
    """Creates the attention masks of a model: a single mask, or one per layer type.

    Raises ValueError for other layer types, such as recurrent layers.
    """

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        self._dtype = model.dtype
        self._window: int | None = getattr(config, "sliding_window", None)
        kinds = set(getattr(config, "layer_types", None) or ())
        if unknown := kinds - {FULL, SLIDING}:
            raise ValueError(f"its layers of kind {', '.join(sorted(unknown))} keep no keys and values")
        self._by_kind = SLIDING in kinds
        self._slides = self._window is not None and (self._by_kind or not kinds)

    def make(self, positions: torch.Tensor, length: int) -> Any:
        """Return the additive mask `[rows, 1, tokens, length]` for tokens at `positions`."""
        places = torch.arange(length, device=positions.device)
        visible = places <= positions[:, None, :, None]
        if not self._slides:
            return self._additive(visible)
        sliding = self._additive(visible & (places > positions[:, None, :, None] - self._window))
        return {FULL: self._additive(visible), SLIDING: sliding} if self._by_kind else sliding

    def _additive(self, visible: torch.Tensor) -> torch.Tensor:
        least = torch.finfo(self._dtype).min
        return torch.zeros(visible.shape, dtype=self._dtype, device=visible.device).masked_fill_(
            ~visible, least
        )
