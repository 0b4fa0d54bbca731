"""A folder for the import path, with the modules that model folders are imported through."""
