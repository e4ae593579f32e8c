"""Linear systems of accelerations and multipliers: the problem, its residuals, and its factors."""
