"""Functions as models: arguments from annotations, results as responses, and apps."""
