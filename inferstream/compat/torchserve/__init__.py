"""TorchServe: the modules that its handlers import, the model that runs one, and its routes."""
