"""Dynamics of the tree: inverse, forward, mass matrix, energies."""
