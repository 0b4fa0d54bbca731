"""Models of known frameworks that need no code. They are `MLModel` subclasses, and are found by name."""
