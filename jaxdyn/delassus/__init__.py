"""The Delassus operator J M⁻¹ Jᵀ + R by itself: what rows of constraints exert on each other."""
