"""Joints, bodies, constraints, and the `Model` that holds them."""
