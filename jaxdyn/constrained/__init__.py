"""Constrained forward dynamics: the problem, its solvers, and their derivatives."""
