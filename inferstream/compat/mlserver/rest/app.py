"""The REST application."""

from typing import Any

from inferstream.compat.replaced import unsupported


def create_app(settings: Any, data_plane: Any, model_repository_handlers: Any) -> Any:
    """Raises Unsupported."""
    raise unsupported(f"{__name__}.create_app", "mlserver.MLServer serves every protocol")


__all__ = ["create_app"]
