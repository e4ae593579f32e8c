"""The shapes of `ModelSpec.add_shape`: ``jd.shapes.Box((1, 1, 0.2))``."""

from .model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Shape, Sphere

__all__ = ["Box", "Capsule", "Cylinder", "Ellipsoid", "HeightField", "Mesh", "Plane", "Shape", "Sphere"]
