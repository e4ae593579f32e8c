"""Time integration: integrators, single steps, rollouts."""
