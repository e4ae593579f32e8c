"""The command line, and the reports, measurements and files that it writes."""
