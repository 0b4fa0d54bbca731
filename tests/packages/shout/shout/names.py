"""The modules of another server, `megaphone`, and the objects here that have their names."""

PRODUCT = "Megaphone"

MODULES = {
    "megaphone": {"Loud": "shout.runtime"},
}
