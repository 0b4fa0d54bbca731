"""Imports of model code: its folders, and the classes that import paths name."""
