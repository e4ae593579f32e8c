"""Contact between shapes: where they touch, how far apart they are, and along which normal."""
