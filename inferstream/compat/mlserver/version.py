"""The release of MLServer whose contract is followed."""

__version__ = "1.7.1"
