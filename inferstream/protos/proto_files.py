"""The `.proto` files of all gRPC services: the protocol, its variants, standard services and typed RPCs."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ..extensions.entries import PROTO_FILES
from ..extensions.loading import load_group
from ..signature import Signature
from .pool import HEALTH, REFLECTION, REQUESTS, SERVICE
from .typed import Method, build_method
from .typed_text import write_proto


class ProtoFile(NamedTuple):
    """A `.proto` file and the services in it."""

    name: str
    """The import path, which may contain slashes."""
    services: tuple[str, ...]
    text: str


def published_files(models: Iterable[tuple[str, Signature]] = ()) -> list[ProtoFile]:
    """Return the files of the protocol, followed by the files of the typed RPCs of these models."""
    return [*_standard(), *_typed_files(models)]


@cache
def _standard() -> list[ProtoFile]:
    folder = files(__package__)
    declared = (folder / "dataplane.proto").read_text("utf-8")
    standard = [ProtoFile("dataplane.proto", (SERVICE,), declared)]
    for plugin, make in load_group(PROTO_FILES, strict=False):
        standard.append(ProtoFile(plugin.name, (SERVICE,), make(declared)))
    standard.append(ProtoFile("requests.proto", (REQUESTS,), (folder / "requests.proto").read_text("utf-8")))
    for service in (HEALTH, *REFLECTION):
        package, _, _ = service.rpartition(".")
        name = f"{package.replace('.', '/')}/{package.split('.')[1]}.proto"
        standard.append(ProtoFile(name, (service,), (folder / "standard" / name).read_text("utf-8")))
    return standard


def _typed_files(models: Iterable[tuple[str, Signature]]) -> list[ProtoFile]:
    """Return one file per package. If two models have messages of one name, only the first has an RPC."""
    packages: dict[str, dict[str, Method]] = {}
    for model, signature in models:
        if (method := build_method(model, signature)) is not None:
            packages.setdefault(method.file, {}).setdefault(method.messages[0], method)
    return [
        ProtoFile(
            name,
            tuple(sorted({method.service for method in methods.values()})),
            write_proto([*methods.values()], {}, "The typed RPCs of the models that are loaded now."),
        )
        for name, methods in packages.items()
    ]
