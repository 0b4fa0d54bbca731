"""The `.proto` files of every service at the gRPC port: the protocol and its variants, gRPC's own, typed RPCs."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ..extensions import PROTO_FILES, loaded
from ..signature import Signature
from .pool import HEALTH, REFLECTION, SERVICE
from .typed import Method, method_of
from .typed_text import proto_of


class ProtoFile(NamedTuple):
    """A file that protoc takes."""

    name: str
    """Where other files import it from; it may hold slashes."""
    services: tuple[str, ...]
    text: str


def published(models: Iterable[tuple[str, Signature]] = ()) -> list[ProtoFile]:
    """The files of the protocol, then those of the typed RPCs of these models."""
    return [*_standard(), *_typed(models)]


@cache
def _standard() -> list[ProtoFile]:
    folder = files(__package__)
    declared = (folder / "dataplane.proto").read_text("utf-8")
    standard = [ProtoFile("dataplane.proto", (SERVICE,), declared)]
    for plugin, make in loaded(PROTO_FILES, strict=False):
        standard.append(ProtoFile(plugin.name, (SERVICE,), make(declared)))
    for service in (HEALTH, *REFLECTION):
        package, _, _ = service.rpartition(".")
        name = f"{package.replace('.', '/')}/{package.split('.')[1]}.proto"
        standard.append(ProtoFile(name, (service,), (folder / "standard" / name).read_text("utf-8")))
    return standard


def _typed(models: Iterable[tuple[str, Signature]]) -> list[ProtoFile]:
    """A file for each package. Of two models whose messages have the same name, the first has an RPC."""
    packages: dict[str, dict[str, Method]] = {}
    for model, signature in models:
        if (method := method_of(model, signature)) is not None:
            packages.setdefault(method.file, {}).setdefault(method.messages[0], method)
    return [
        ProtoFile(
            name,
            tuple(sorted({method.service for method in methods.values()})),
            proto_of([*methods.values()], {}, "The typed RPCs of the models that are loaded now."),
        )
        for name, methods in packages.items()
    ]
