"""Names of other servers that inferstream stands in for."""


def is_replaced(value: object) -> bool:
    """Whether a value is a class for annotations only, whose constructor names the replacement."""
    return isinstance(value, type) and "instead" in vars(value)
