"""Statistics: intervals, tests, verdicts, patterns, effects.

Pure functions over plain numbers: no database, no clock, no file, and no
randomness unless it is seeded.  Knows nothing of trials or pages.
"""
