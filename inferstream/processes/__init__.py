"""What the server's processes share: starting one, frames between two, descriptors and memory passed between them."""
