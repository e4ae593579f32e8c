"""Where two shapes touch: gap, point and normal, from their poses and sizes alone."""
