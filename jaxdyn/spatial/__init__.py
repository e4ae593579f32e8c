"""Rotations, poses, inertias, and the 3x3 algebra that all of the engine uses."""
