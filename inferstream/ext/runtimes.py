"""Runtimes: how a model's files become a model."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..dataplane.facets import Faceted as Faceted
    from ..dataplane.facets import TextFacts as TextFacts
    from ..imports.folders import import_from as import_from
    from ..imports.untrusted import untrusted as untrusted_origin
    from ..repository import ModelRepository as ModelRepository
    from ..repository.archives import MOST_MEMBERS as MOST_MEMBERS
    from ..repository.archives import UnsafeArchive as UnsafeArchive
    from ..repository.trust import PermittedCall as PermittedCall
    from ..runtimes.artefact import ArtefactModel as ArtefactModel
    from ..runtimes.base import Function as PredictFunction
    from ..runtimes.base import Runtime as Runtime
    from ..runtimes.framework import TORCH_LOADING as TORCH_LOADING
    from ..runtimes.refusals import refusing as blaming_the_client

__all__ = [
    "ArtefactModel",
    "Faceted",
    "MOST_MEMBERS",
    "ModelRepository",
    "PermittedCall",
    "PredictFunction",
    "Runtime",
    "TORCH_LOADING",
    "TextFacts",
    "UnsafeArchive",
    "blaming_the_client",
    "import_from",
    "untrusted_origin",
]

_NAMES = {
    "dataplane.facets": "Faceted TextFacts",
    "imports.folders": "import_from",
    "imports.untrusted": "untrusted=untrusted_origin",
    "repository": "ModelRepository",
    "repository.archives": "MOST_MEMBERS UnsafeArchive",
    "repository.trust": "PermittedCall",
    "runtimes.artefact": "ArtefactModel",
    "runtimes.base": "Function=PredictFunction Runtime",
    "runtimes.framework": "TORCH_LOADING",
    "runtimes.refusals": "refusing=blaming_the_client",
}

__getattr__ = export(__name__, _NAMES)
