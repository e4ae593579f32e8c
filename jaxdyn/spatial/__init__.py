"""Rotations, poses, inertias, and the 3x3 algebra of the engine."""
