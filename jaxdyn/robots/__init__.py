"""Robots that jaxdyn ships, for `load` to find by name."""
