"""`Value` and its subclasses, which convert between one Python value and one tensor."""
