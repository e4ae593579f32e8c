"""The command line: what it reads, reports, measures and writes."""
