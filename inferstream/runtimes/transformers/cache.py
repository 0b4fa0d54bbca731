"""The key/value cache that all streams share: a row for each stream, in which it writes at its own position."""

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from transformers import Cache

STEP = 64
"""Tokens by which the capacity is rounded up."""


class SharedCache(Cache):
    """Keys and values of all layers, each `[rows, capacity, heads, size]`.

    Every forward pass is announced by `enter`, which says what `update` writes where. The last place of
    each row is a scratch place: padding is written there and never read.
    Memory that was never written takes no memory on a CPU, so short rows beside a long one cost little.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.rows = 0
        self.capacity = 0
        self.sparse = True
        """Whether what was never written takes no memory."""
        self._storage: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._rows: slice | torch.Tensor = slice(0)
        self._row_index: torch.Tensor | None = None
        self._places: torch.Tensor | None = None
        self._length = 0

    @property
    def scratch(self) -> int:
        """The place of padding."""
        return self.capacity - 1

    def enter(
        self, rows: slice | torch.Tensor, row_index: torch.Tensor, places: torch.Tensor, length: int
    ) -> None:
        """The next pass runs `rows`, writes token j of row i at `places[i, j]`, and reads `length` tokens."""
        self._rows, self._row_index, self._places, self._length = rows, row_index, places, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values; return those of all tokens so far, `[rows, heads, length, size]`."""
        if layer_idx not in self._storage:
            self._storage[layer_idx] = (self._allocate(key_states), self._allocate(value_states))
        keys, values = self._storage[layer_idx]
        keys[self._row_index, self._places] = key_states.transpose(1, 2)
        values[self._row_index, self._places] = value_states.transpose(1, 2)
        rows, length = self._rows, self._length
        return keys[rows, :length].transpose(1, 2), values[rows, :length].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0  # positions are always given

    def resize(self, rows: int, tokens: int, kept: Sequence[int]) -> None:
        """Make room for `rows` rows of `tokens` tokens; row i keeps its first `kept[i]` tokens."""
        capacity = _rounded(tokens + 1)
        if rows == self.rows and capacity == self.capacity:
            return
        self.rows, self.capacity = rows, capacity
        for layer, (keys, values) in self._storage.items():
            # Layer by layer, so that no more than one layer is there twice.
            self._storage[layer] = (self._moved(keys, kept), self._moved(values, kept))
            del keys, values

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one row to another."""
        for pair in self._storage.values():
            for stored in pair:
                stored[target, :tokens] = stored[source, :tokens]

    def swap(self, one: int, one_tokens: int, other: int, other_tokens: int) -> None:
        """Exchange two rows, which hold so many tokens."""
        for pair in self._storage.values():
            for stored in pair:
                moving = stored[one, :one_tokens].clone()
                stored[one, :other_tokens] = stored[other, :other_tokens]
                stored[other, :one_tokens] = moving

    def _allocate(self, like: torch.Tensor) -> torch.Tensor:
        """Zeros, because masked values must be numbers all the same."""
        self.sparse = like.device.type == "cpu"
        return _zeros((self.rows, self.capacity, like.shape[1], like.shape[3]), like.dtype, like.device)

    def _moved(self, stored: torch.Tensor, kept: Sequence[int]) -> torch.Tensor:
        shape = (self.rows, self.capacity, *stored.shape[2:])
        new = _zeros(shape, stored.dtype, stored.device)
        for row, tokens in enumerate(kept[: self.rows]):
            if tokens:
                new[row, :tokens] = stored[row, :tokens]
        return new


def _rounded(tokens: int) -> int:
    return -(-tokens // STEP) * STEP


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros. On a CPU they are a mapping of their own: it costs what is written, and goes when it is freed."""
    size = prod(shape) * dtype.itemsize
    if device.type != "cpu" or not size:
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
