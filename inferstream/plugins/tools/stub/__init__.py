"""`server stub`: a typed client for an app."""
