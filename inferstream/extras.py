"""The install command of an optional extra, for error messages."""

import re
import sys

IS_PUBLISHED = False
"""Whether inferstream is on the package index. If not, messages list the packages of an extra instead."""

EXTRA = r""";\s*(?:\(?(?P<marker>.*?)\)?\s+and\s+)?extra\s*==\s*["'](?P<extra>[^"']+)["']"""
PLATFORM = r"""sys_platform\s*(?P<operator>==|!=)\s*["'](?P<name>\w+)["']"""


def install_command(extra: str) -> str:
    """Return a `pip install` command for an extra of inferstream that works wherever inferstream runs."""
    if IS_PUBLISHED:
        return f'pip install "inferstream[{extra}]"'
    packages = _requirements(extra)
    if not packages:  # no metadata: a source tree that is not installed
        return f'pip install ".[{extra}]"'
    return "pip install " + " ".join(f'"{package}"' for package in packages)


def _requirements(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires  # imported lazily: only for messages

    try:
        declared = requires(__name__.partition(".")[0]) or ()
    except PackageNotFoundError:
        return []
    requirements = []
    for requirement in declared:
        condition = re.search(EXTRA, requirement)
        if condition is not None and condition["extra"] == extra and _matches_platform(condition["marker"]):
            requirements.append(requirement[: condition.start()].strip())
    return requirements


def _matches_platform(marker: str | None) -> bool:
    """Whether a marker matches this platform. Our extras use no other markers."""
    platform = re.search(PLATFORM, marker or "")
    return platform is None or (sys.platform == platform["name"]) is (platform["operator"] == "==")
