"""One machine: what it is, its links, its tick counters and its control groups.

Knows no trial, no database, no command line, and nothing of the engine that
measures on it.
"""
