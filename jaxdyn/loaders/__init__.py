"""Loaders of robot files. Each returns a `ModelSpec`."""
