"""Kernel walls and the batching primitive."""
