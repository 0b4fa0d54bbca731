"""The classes that typed stubs of apps build on."""
