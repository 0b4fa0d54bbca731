"""Print how often the text of the project uses habits that its readers stumble over: `make english`."""

import argparse
from pathlib import Path

from . import gauge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", metavar="HABIT", help="print the lines that have this habit")
    parser.add_argument("paths", nargs="*", type=Path, help="pages and modules instead of all")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.paths] or [*gauge.pages(), *gauge.modules()]
    pages, modules = ([path for path in paths if path.suffix == suffix] for suffix in (".md", ".py"))
    if options.places == "names":
        print(*gauge.participles(modules)[0], sep="\n")
    elif options.places:
        print(*gauge.places(options.places, paths), sep="\n")
    else:
        for kind, files in (("docs", pages), ("docstrings", modules)):
            print(f"{kind}: {len(files)} files")
            for rate in gauge.rates(files, kind) if files else ():
                show(rate)
        show(gauge.name_rate(modules))


def show(rate: gauge.Rate) -> None:
    bound = f"at {'least' if rate.at_least else 'most'} {rate.bound:g}"
    print(f"  {'   ' if rate.is_met else 'NOT'} {rate.name:40} {rate.rate:6.2f}  {bound}")


if __name__ == "__main__":
    main()
