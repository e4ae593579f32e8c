"""Joints, bodies, constraints and the model made of them."""
