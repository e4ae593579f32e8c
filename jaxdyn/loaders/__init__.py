"""Loaders: each format fills a `ModelSpec`."""
