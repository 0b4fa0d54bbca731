"""Imports of model code: model folders, and resolution of import paths to classes."""
