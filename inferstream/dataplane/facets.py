"""Facets: properties that plug-ins compute for a model when it loads. They are looked up by type."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..extensions.entries import FACETS, Plugin
from ..extensions.loading import leave_out, load_group
from ..signature import Signature
from ..types import MetadataTensor

if TYPE_CHECKING:
    from ..settings import ModelSettings

F = TypeVar("F")

FacetFactory = Callable[[Signature, "ModelSettings"], object]
"""Computes a facet of a model. Returns None if it does not apply."""


class TextFacts:
    """Properties of a text model that the server itself uses. Text plug-ins subclass it for their facet."""

    prompt: MetadataTensor | None
    """The input for the user's prompt."""
    generates: bool
    """Whether the model may return text."""
    embeds: bool
    """Whether the model returns vectors."""
    listed: bool
    """Whether the properties are certain, so that model lists include the model."""

    @property
    def operation(self) -> str | None:
        """The operation in telemetry: `chat`, `text_completion` or `embeddings`. None if it is uncertain."""
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
    """Load time, in seconds since 1970."""
    ready: bool
    default: bool
    """Whether it serves calls without a version."""
    facet: F


class Facets:
    """Computes the facets of models."""

    def __init__(self, strict: bool) -> None:
        """Load the factories of all extensions. If `strict`, raises InvalidSettings for an unusable one."""
        self._strict = strict
        self._factories: list[tuple[Plugin, FacetFactory]] = [*load_group(FACETS, strict)]

    def of(self, signature: Signature, settings: "ModelSettings") -> Mapping[type, object]:
        """Return the facets of a model, by their types and base types.

        Factories of other packages that fail are skipped, or raise InvalidSettings if `strict`.
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
