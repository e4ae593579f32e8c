"""Rotations, poses, inertias and the 3x3 algebra below everything."""
