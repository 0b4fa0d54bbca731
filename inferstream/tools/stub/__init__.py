"""`server stub`: a typed client of an app."""
