"""Lists the models that a folder or app would load, with their problems."""

import contextlib
import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InferstreamError
from ..functions.model import resolve_model_class
from ..settings import SETTINGS_FILE, ModelSettings, Settings, load_settings
from ..settings.sources import read_json, unknown_fields
from ..telemetry.tracebacks import summarize_error
from .classes import not_a_model
from .environments import find_python
from .files import repository_of_file
from .folder import FolderRepository, read_settings, settings_files
from .presence import find_missing_class
from .trust import check_model


@dataclass(slots=True)
class Finding:
    """The findings for one settings file. Fields that could not be read are empty."""

    source: str
    name: str
    version: str = ""
    implementation: str = ""
    workers: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Inspection:
    """The findings for a folder or app. `problems` are problems in the server settings."""

    models: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.problems and not any(model.problems for model in self.models)


def inspect_folder(root: Path, importing: bool = False) -> Inspection:
    """Inspect every model under `root`. Model code only runs if `importing` is set."""
    root = root.resolve()
    inspection = Inspection()
    server = _server_settings(root, inspection)
    seen: dict[tuple[str, str | None], Finding] = {}
    for path in settings_files(root):
        finding = Finding(source=str(path.relative_to(root)), name=path.parent.name)
        inspection.models.append(finding)
        try:
            settings = read_settings(path, root)
        except InferstreamError as error:
            finding.problems.append(error.message.removeprefix(f"{path}: "))
            continue
        finding.problems += settings.faults
        _describe(finding, settings, server)
        finding.problems += _problems(settings, importing)
        _report_duplicates(seen, finding, settings)
    if not inspection.models:
        inspection.models += _inspect_models(root, server, importing)
    return inspection


def inspect_app(path: str, folder: Path) -> Inspection:
    """Inspect the models of `module:name`, or of a Python file. This runs the code that defines them."""
    inspection = Inspection()
    server = _server_settings(folder, inspection)
    try:
        # Keep the output of model code out of the command's output.
        with contextlib.redirect_stdout(sys.stderr):
            models = repository_of_file(path, folder).models()
    except InferstreamError as error:
        inspection.problems.append(error.message)
        return inspection
    for settings in models:
        finding = Finding(source=path, name=settings.name)
        _describe(finding, settings, server)
        inspection.models.append(finding)
    return inspection


def _inspect_models(root: Path, server: Settings | None, importing: bool) -> Iterator[Finding]:
    """Yield findings for models described by environment variables or by the folder's files."""
    described = bool(ModelSettings.from_environment().get("implementation"))
    repository = FolderRepository(root)
    for artefact in repository.artefacts():
        archive = artefact != root
        source = "environment" if described else artefact.name if archive else "."
        finding = Finding(source=source, name=artefact.stem if archive else root.name)
        try:
            settings = repository.without_settings(artefact)
        except InferstreamError as error:
            finding.problems.append(error.message)
            yield finding
            continue
        if settings is not None:
            _describe(finding, settings, server)
            finding.problems += _problems(settings, importing)
            yield finding


def _server_settings(root: Path, inspection: Inspection) -> Settings | None:
    path = root / SETTINGS_FILE
    try:
        settings = load_settings(root)
        if path.exists():
            inspection.problems += [
                f"{path.name}: {fault}" for fault in unknown_fields(Settings, read_json(path))
            ]
    except InferstreamError as error:
        inspection.problems.append(error.message.replace(f"{root}{os.sep}", ""))
        return None
    if settings.model_repository_implementation is not None:
        inspection.problems.append(
            f"{path.name}: models come from {settings.model_repository_implementation}, which is not asked here"
        )
    return settings


def _describe(finding: Finding, settings: ModelSettings, server: Settings | None) -> None:
    finding.name = settings.name
    finding.version = settings.version or ""
    finding.implementation = settings.implementation_
    workers = settings.parallel_workers
    if workers is None:
        workers = server.parallel_workers if server is not None else 0
    finding.workers = max(workers, 1 if _has_own_environment(settings) else 0)


def _has_own_environment(settings: ModelSettings) -> bool:
    parameters = settings.parameters
    return parameters is not None and bool(parameters.environment_path or parameters.environment_tarball)


def _problems(settings: ModelSettings, importing: bool) -> Iterator[str]:
    try:
        check_model(settings)
    except InferstreamError as error:
        yield error.message
        return
    yield from _environment_problems(settings)
    if importing and not _has_own_environment(settings):
        yield from _import_problems(settings)
        return
    folder = Path(settings.source).parent if settings.source else Path.cwd()
    missing = find_missing_class(settings.implementation_, folder, _has_own_environment(settings))
    if missing is not None:
        yield missing


def _environment_problems(settings: ModelSettings) -> Iterator[str]:
    parameters = settings.parameters
    if parameters is None:
        return
    beside = Path(settings.source).parent if settings.source else Path.cwd()
    if parameters.environment_path:
        if not find_python(beside / parameters.environment_path).exists():
            yield f'environment_path "{parameters.environment_path}" has no bin/python'
    elif parameters.environment_tarball:
        tarball = beside / parameters.environment_tarball
        if not tarball.is_file():
            yield f'environment_tarball "{parameters.environment_tarball}" is not there'
        elif not tarfile.is_tarfile(tarball):
            yield f'environment_tarball "{parameters.environment_tarball}" is not a tar archive'


def _import_problems(settings: ModelSettings) -> Iterator[str]:
    try:
        # Keep the output of model code out of the command's output.
        with contextlib.redirect_stdout(sys.stderr):
            implementation = settings.implementation
    except InferstreamError as error:
        yield error.message
    except (Exception, SystemExit) as error:
        yield f'implementation "{settings.implementation_}": {summarize_error(error)}'
    else:
        if resolve_model_class(implementation, settings.name) is None:
            yield not_a_model(settings).message


def _report_duplicates(
    seen: dict[tuple[str, str | None], Finding], finding: Finding, settings: ModelSettings
) -> None:
    """Report a duplicate name and version for both models, because the server serves neither."""
    first = seen.setdefault((settings.name, settings.version), finding)
    if first is finding:
        return
    finding.problems.append(f"name and version are also those of {first.source}")
    first.problems.append(f"name and version are also those of {finding.source}")
