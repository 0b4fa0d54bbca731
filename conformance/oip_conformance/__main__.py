"""Entry point of `python -m oip_conformance`."""

from .cli import main

if __name__ == "__main__":
    main()
