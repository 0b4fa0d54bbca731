"""A folder for the import path, with the module that model folders are imported through."""
