"""The messages of ORCA, in a descriptor pool of their own."""
