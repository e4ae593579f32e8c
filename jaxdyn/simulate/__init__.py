"""Integration in time: integrators, single steps, rollouts."""
