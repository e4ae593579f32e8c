"""Linear systems of accelerations and multipliers: problem, equations of motion, factors."""
