"""Names for runtimes, which load model files."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..dataplane.facets import Faceted as Faceted
    from ..dataplane.facets import TextFacts as TextFacts
    from ..handlers import get_custom_handlers as get_custom_handlers
    from ..imports.folders import import_from as import_from
    from ..imports.trusted import TrustedRuntimes as TrustedRuntimes
    from ..repository import FolderRepository as FolderRepository
    from ..repository import ModelRepository as ModelRepository
    from ..repository.archives import Unpacker as Unpacker
    from ..repository.archives import UnsafeArchive as UnsafeArchive
    from ..repository.trust import PermittedCall as PermittedCall
    from ..repository.trust import UntrustedOrigin as UntrustedOrigin
    from ..repository.uri import get_model_uri as get_model_uri
    from ..repository.uri import to_absolute_path as to_absolute_path
    from ..runtimes.artefact import ArtefactModel as ArtefactModel
    from ..runtimes.base import Runtime as Runtime
    from ..runtimes.columns import Column as Column
    from ..runtimes.columns import Columns as Columns
    from ..runtimes.columns import described as described_tensor
    from ..runtimes.framework import TORCH_LOADING as TORCH_LOADING
    from ..runtimes.framework import FrameworkModel as FrameworkModel
    from ..signature import Signature as Signature

__all__ = [
    "ArtefactModel",
    "Column",
    "Columns",
    "Faceted",
    "FolderRepository",
    "FrameworkModel",
    "ModelRepository",
    "PermittedCall",
    "Runtime",
    "Signature",
    "TORCH_LOADING",
    "TextFacts",
    "TrustedRuntimes",
    "Unpacker",
    "UnsafeArchive",
    "UntrustedOrigin",
    "described_tensor",
    "get_custom_handlers",
    "get_model_uri",
    "import_from",
    "to_absolute_path",
]

_NAMES = {
    "dataplane.facets": "Faceted TextFacts",
    "handlers": "get_custom_handlers",
    "imports.folders": "import_from",
    "imports.trusted": "TrustedRuntimes",
    "repository": "FolderRepository ModelRepository",
    "repository.archives": "Unpacker UnsafeArchive",
    "repository.trust": "PermittedCall UntrustedOrigin",
    "repository.uri": "get_model_uri to_absolute_path",
    "runtimes.artefact": "ArtefactModel",
    "runtimes.base": "Runtime",
    "runtimes.columns": "Column Columns described=described_tensor",
    "runtimes.framework": "FrameworkModel TORCH_LOADING",
    "signature": "Signature",
}

__getattr__ = export(__name__, _NAMES)
