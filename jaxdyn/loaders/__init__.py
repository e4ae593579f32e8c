"""Loaders of robot files. Each one returns a `ModelSpec`."""
