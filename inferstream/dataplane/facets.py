"""Facets: what plug-ins know of a model. Each is made when the model loads, and found by its type."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..extensions import FACETS, Plugin, leave_out, loaded
from ..signature import Signature
from ..types import MetadataTensor

if TYPE_CHECKING:
    from ..settings import ModelSettings

F = TypeVar("F")

FacetFactory = Callable[[Signature, "ModelSettings"], object]
"""Makes a facet of a model; None for a model that has none of this kind."""


class TextFacts:
    """What the server itself asks about a model of texts. The facet of a plug-in that knows it derives from this."""

    prompt: MetadataTensor | None
    """The input that takes the words of a person."""
    generates: bool
    """Whether it may return texts."""
    embeds: bool
    """Whether it returns vectors."""
    listed: bool
    """Whether it is known to do that, so that lists of models show it."""

    @property
    def operation(self) -> str | None:
        """What its calls are: `chat`, `text_completion` or `embeddings`; None where they may be something else."""
        return None

    @property
    def makes_texts(self) -> bool:
        """Whether each response of a stream is known to be a token."""
        return self.listed and self.generates


class Faceted(NamedTuple, Generic[F]):
    """A version of a model that has a facet."""

    name: str
    version: str | None
    created: int
    """When it was loaded, in seconds since 1970."""
    ready: bool
    default: bool
    """Whether it answers calls without a version."""
    facet: F


class Facets:
    """Makes the facets of each model."""

    def __init__(self, strict: bool) -> None:
        """Load the factories of all extensions. Raises InvalidSettings for one that cannot be used where `strict`."""
        self._strict = strict
        self._factories: list[tuple[Plugin, FacetFactory]] = [*loaded(FACETS, strict)]

    def of(self, signature: Signature, settings: "ModelSettings") -> Mapping[type, object]:
        """Those of a model, by their types and the types that these derive from.

        One of another package that fails is left out. Raises InvalidSettings for it where `strict`.
        """
        facets: dict[type, object] = {}
        for plugin, factory in self._factories:
            try:
                facet = factory(signature, settings)
            except Exception as error:
                leave_out(plugin, error, self._strict)
                continue
            if facet is not None:
                facets |= dict.fromkeys(type(facet).__mro__[:-1], facet)
        return facets
