"""Functions on lanes as programs: traced, made scalar, ordered, and compiled for CPUs and GPUs, or left to XLA."""
