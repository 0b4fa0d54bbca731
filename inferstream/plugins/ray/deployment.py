"""Builds the Ray Serve application: one deployment with the whole server in each replica."""

import asyncio
import pickle
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferstream import App, MLModel, ModelSettings, Settings
from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.hosting import find_target, resolve_served
from inferstream.ext.runtimes import ModelRepository

from .stopping import STOPPING

if TYPE_CHECKING:
    from ray.serve import Application

Model = type[MLModel] | MLModel | ModelSettings | App
Served = str | Path | Settings | Model | Iterable[Model] | Mapping[str, type[MLModel] | MLModel]
"""The types that `Application` accepts."""

CALLS_BESIDE = 64
"""Concurrent calls per replica in addition to model calls: health, metadata and idle WebSockets."""

LOOK = 0.25
"""Seconds between Ray's checks of whether a stopping replica still has calls."""


def application(
    served: Served = ".", *, settings: Mapping[str, Any] | None = None, **options: Any
) -> "Application":
    """Create a Ray Serve application for `serve run module:app` or `serve.run`.

    `served` is the same as for `Application`, and `settings` are server settings. `options` are passed to
    `serve.deployment`, and their defaults are derived from the models. Folders and modules must be at the
    same path on each node. Raises InvalidSettings, or MissingExtra if Ray or grpcio is not installed.
    """
    try:
        from ray import cloudpickle, serve

        from .replica import Replica  # Imported lazily: needs grpcio.
    except ModuleNotFoundError as missing:
        raise MissingExtra("inferstream.ray", "ray", missing) from missing
    served = _with_absolute_path(served)
    own, repository = resolve_served(served, settings or {})
    if own.frontends > 1:
        raise InvalidSettings(
            f"frontends is {own.frontends}, and a replica of Ray Serve has one; raise num_replicas instead"
        )
    try:
        cloudpickle.dumps(served)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise InvalidSettings(
            f'Ray cannot copy what is served to its replicas ({error}); give a folder or "module:app"'
        ) from error
    wanted = {"name": own.server_name, **_defaults(own, _models(own, repository)), **options}
    deployment = serve.deployment(**wanted)(serve.ingress()(Replica))
    return deployment.bind(served, dict(settings or {}))


def _with_absolute_path(served: Served) -> Served:
    """Make a path absolute, because replicas have other working directories."""
    if not isinstance(served, str | Path):
        return served
    folder, code = find_target(str(served))
    if code is None or Path(served).is_dir():
        return str(folder.resolve())
    module, _, name = code.partition(":")
    file = folder.resolve() / f"{module}.py"
    return f"{file}:{name}" if file.is_file() else served


def _models(settings: Settings, repository: ModelRepository) -> list[ModelSettings]:
    return asyncio.run(repository.list()) if settings.load_models_at_startup else []


def _defaults(settings: Settings, models: list[ModelSettings]) -> dict[str, Any]:
    """Return default deployment options, derived from the settings of the server and its models."""
    workers = max([settings.parallel_workers, *(model.parallel_workers or 0 for model in models)], default=0)
    named = {device for model in models if model.devices != "auto" for device in model.devices}
    gpus = len(named) or int(any(model.devices == "auto" for model in models))
    return {
        "max_ongoing_requests": CALLS_BESIDE + sum(_calls(model) for model in models),
        "graceful_shutdown_timeout_s": float(
            ceil(settings.shutdown_delay + settings.shutdown_grace + STOPPING)
        ),
        "graceful_shutdown_wait_loop_s": LOOK,
        "ray_actor_options": {"num_cpus": 1 + workers, "num_gpus": gpus},
    }


def _calls(model: ModelSettings) -> int:
    """Return the capacity of a model plus one, so that the server, not Ray, rejects calls to a full queue."""
    return (model.max_concurrency or model.max_active) + model.max_queue + 1
