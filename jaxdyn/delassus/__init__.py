"""The Delassus operator J M⁻¹ Jᵀ + R, which maps forces along constraint rows to the accelerations of these rows."""
