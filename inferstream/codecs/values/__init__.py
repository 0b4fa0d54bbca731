"""Values: one Python value as one tensor, chosen by an annotation or by a declared tensor."""
