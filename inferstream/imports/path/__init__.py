"""Modules for importing model folders. This folder is added to `sys.path`."""
