"""The release of MLServer's runtime whose contract is followed."""

__version__ = "1.7.1"
