"""The shared key/value cache. Each stream has a row, which is written at the stream's position."""

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from transformers import Cache

STEP = 64
"""The capacity in tokens is rounded up to a multiple of this."""


class SharedCache(Cache):
    """Keys and values of all layers, each `[rows, capacity, heads, size]`.

    Call `enter` before each forward pass to set where `update` writes. The last position of each row is
    scratch space: padding is written there and never read. On a CPU, memory is allocated only when written,
    so short rows cost little.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.rows = 0
        self.capacity = 0
        self.sparse = True
        """Whether unwritten positions use no memory."""
        self._storage: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._rows: slice | torch.Tensor = slice(0)
        self._row_index: torch.Tensor | None = None
        self._places: torch.Tensor | None = None
        self._length = 0

    @property
    def scratch(self) -> int:
        """The position for padding."""
        return self.capacity - 1

    def prepare_pass(
        self, rows: slice | torch.Tensor, row_index: torch.Tensor, places: torch.Tensor, length: int
    ) -> None:
        """Prepare a pass over `rows`: write token j of row i at `places[i, j]`, read `length` tokens."""
        self._rows, self._row_index, self._places, self._length = rows, row_index, places, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values, and return all of them so far, each `[rows, heads, length, size]`."""
        if layer_idx not in self._storage:
            self._storage[layer_idx] = (self._allocate(key_states), self._allocate(value_states))
        keys, values = self._storage[layer_idx]
        keys[self._row_index, self._places] = key_states.transpose(1, 2)
        values[self._row_index, self._places] = value_states.transpose(1, 2)
        rows, length = self._rows, self._length
        return keys[rows, :length].transpose(1, 2), values[rows, :length].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0  # position IDs are always passed

    def resize(self, rows: int, tokens: int, kept: Sequence[int]) -> None:
        """Resize to `rows` rows of `tokens` tokens. Row i keeps its first `kept[i]` tokens."""
        capacity = _round_up(tokens + 1)
        if rows == self.rows and capacity == self.capacity:
            return
        self.rows, self.capacity = rows, capacity
        for layer, (keys, values) in self._storage.items():
            # One layer at a time, so at most one is in memory twice.
            self._storage[layer] = (self._move_rows(keys, kept), self._move_rows(values, kept))
            del keys, values

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one row to another."""
        for pair in self._storage.values():
            for stored in pair:
                stored[target, :tokens] = stored[source, :tokens]

    def swap(self, one: int, one_tokens: int, other: int, other_tokens: int) -> None:
        """Swap two rows with the given numbers of tokens."""
        for pair in self._storage.values():
            for stored in pair:
                moving = stored[one, :one_tokens].clone()
                stored[one, :other_tokens] = stored[other, :other_tokens]
                stored[other, :one_tokens] = moving

    def _allocate(self, like: torch.Tensor) -> torch.Tensor:
        """Allocate zeros, because masked values must be finite."""
        self.sparse = like.device.type == "cpu"
        return _zeros((self.rows, self.capacity, like.shape[1], like.shape[3]), like.dtype, like.device)

    def _move_rows(self, stored: torch.Tensor, kept: Sequence[int]) -> torch.Tensor:
        shape = (self.rows, self.capacity, *stored.shape[2:])
        new = _zeros(shape, stored.dtype, stored.device)
        for row, tokens in enumerate(kept[: self.rows]):
            if tokens:
                new[row, :tokens] = stored[row, :tokens]
        return new


def _round_up(tokens: int) -> int:
    return -(-tokens // STEP) * STEP


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros. On a CPU, they are an anonymous mapping, whose pages are allocated on write."""
    size = prod(shape) * dtype.itemsize
    if device.type != "cpu" or not size:
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
