"""Topology, static plans, the two sweeps and the eliminations."""
