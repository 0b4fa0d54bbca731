"""Models of known frameworks that need no code: `MLModel` subclasses, found by name and never imported here."""
