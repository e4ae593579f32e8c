"""Positions, velocities and accelerations of bodies, frames and constraints."""
