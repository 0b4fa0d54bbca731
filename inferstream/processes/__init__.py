"""Parts that the processes of a server share: starting one, frames between two, descriptors and memory passed along."""
