"""Continuous batching: advances all streams by a token per step, and reads prompts in chunks."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from ..token_stream import ChosenToken, Piece, TokenStream, divide_budget
from .cache import SharedCache
from .masks import Masks
from .rows import Rows
from .sampling import add_logprobs, choose


class StepEngine:
    """Runs the network over the shared cache. Must be called from one thread."""

    def __init__(self, model: Any, most: int, budget: int, kept: int) -> None:
        self._model = model
        self._budget = budget
        self._device = model.device
        self._masks = Masks(model)
        known = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in known else "past_key_values"  # until transformers 5.40
        self.cache = SharedCache()
        self.rows = Rows(self.cache, most, kept)
        self._waiting: list[TokenStream] = []
        self._came = 0

    @property
    def active(self) -> int:
        """Number of streams that have a row."""
        return len(self.rows.active)

    def add(self, stream: TokenStream) -> None:
        """Add a stream to the next steps.

        A row is assigned to it when the first chunk of its prompt is read.
        """
        self._came += 1
        stream.number = self._came
        self._waiting.append(stream)

    @torch.inference_mode()
    def remove(self, stream: TokenStream) -> None:
        """Remove a stream and release its row."""
        if stream.row < 0:
            self._waiting.remove(stream)
        else:
            self.rows.release(stream)

    @torch.inference_mode()
    def step(self, streams: Sequence[TokenStream]) -> dict[TokenStream, ChosenToken]:
        """Return a token for each stream whose prompt has been read, and read a chunk of other prompts.

        A stream whose prompt is completed in this step receives its first token in the same step.
        """
        writing = sorted(
            (each for each in streams if each.row >= 0 and not each.unread), key=lambda each: each.row
        )
        results = [self.write(writing)] if writing else []
        for group in group_pieces(divide_budget([each for each in streams if each.unread], self._budget)):
            logits = self.read(group)
            done = [index for index, piece in enumerate(group) if not piece.stream.unread]
            if done:
                writing += [group[index].stream for index in done]
                results.append(logits[done])
        if not writing:
            return {}
        choices = choose(results[0] if len(results) == 1 else torch.cat(results), writing)
        for stream, choice in zip(writing, choices, strict=True):
            stream.tokens.append(choice.token)
        return dict(zip(writing, choices, strict=True))

    def write(self, writing: list[TokenStream]) -> torch.Tensor:
        """Return the logits after the last token of each stream, ordered by row.

        The pass covers all rows up to the last one, because a slice of the cache is a view without a copy.
        Rows that do not advance are padding.
        """
        self.rows.reserve(max(len(each.tokens) for each in writing))
        count = writing[-1].row + 1
        tokens, positions, places = [0] * count, [0] * count, [self.cache.scratch] * count
        for each in writing:
            tokens[each.row] = each.tokens[-1]
            positions[each.row] = places[each.row] = each.read
        length = max(positions) + 1
        columns = _column(tokens), _column(positions), _column(places)
        logits = self._run(slice(0, count), *columns, length)[:, -1]
        for each in writing:
            each.read += 1
        return logits if len(writing) == count else logits[[each.row for each in writing]]

    def read(self, pieces: list[Piece]) -> torch.Tensor:
        """Return the logits after each chunk. Shorter chunks are padded on the left."""
        for piece in pieces:
            if piece.stream.row < 0:
                self._waiting.remove(piece.stream)
                self.rows.assign(piece.stream)
        counts = [min(piece.tokens, piece.stream.unread) for piece in pieces]
        longest, scratch = max(counts), self.cache.scratch
        tokens, positions, places = [], [], []
        for piece, number in zip(pieces, counts, strict=True):
            stream, padding = piece.stream, longest - number
            start, end = stream.read, stream.read + number
            tokens.append([0] * padding + stream.tokens[start:end])
            positions.append([0] * padding + list(range(start, end)))
            places.append([scratch] * padding + list(range(start, end)))
        rows = self._select([piece.stream.row for piece in pieces])
        first = pieces[0].stream
        keep = longest if first.scores is not None else 1
        logits = self._run(rows, tokens, positions, places, 1 + max(map(max, positions)), keep)
        if first.scores is not None:
            most = first.sampling.prompt_logprobs or 0
            following = first.tokens[first.read + 1 : first.read + 1 + longest]
            scored = zip(logits[0].float(), following, strict=False)
            first.scores += [add_logprobs(row, token, most) for row, token in scored]
        for piece, number in zip(pieces, counts, strict=True):
            piece.stream.read += number
        return logits[:, -1]

    def _select(self, rows: list[int]) -> slice | torch.Tensor:
        """Return the row indices, as a slice if they are contiguous."""
        if rows == list(range(rows[0], rows[0] + len(rows))):
            return slice(rows[0], rows[0] + len(rows))
        return torch.tensor(rows, device=self._device)

    def _run(
        self,
        rows: slice | torch.Tensor,
        tokens: list[list[int]],
        positions: list[list[int]],
        places: list[list[int]],
        length: int,
        keep: int = 1,
    ) -> torch.Tensor:
        """Run a forward pass and return the logits of the last `keep` columns, `[rows, keep, vocabulary]`."""
        device = self._device
        index = torch.arange(rows.start, rows.stop, device=device) if isinstance(rows, slice) else rows
        position = torch.tensor(positions, device=device)
        self.cache.prepare_pass(rows, index[:, None], torch.tensor(places, device=device), length)
        output = self._model(
            input_ids=torch.tensor(tokens, device=device),
            attention_mask=self._masks.make(position, length),
            position_ids=position,
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_argument: self.cache},
        )
        logits: torch.Tensor = output.logits
        return logits


def group_pieces(pieces: list[Piece]) -> list[list[Piece]]:
    """Group chunks of similar length into passes in which at most half of the tokens are padding.

    A chunk with prompt log probabilities gets its own pass.
    """
    groups: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda each: each.tokens):
        alone = piece.stream.scores is not None or (groups and groups[-1][0].stream.scores is not None)
        if groups and not alone and piece.tokens <= 2 * groups[-1][0].tokens:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _column(values: list[int]) -> list[list[int]]:
    return [[value] for value in values]
