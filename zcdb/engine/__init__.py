"""Moves bytes and measures what that costs, on one host.

The C files hold only timed loops; everything that need not be timed is done
here in Python, in processes forked from a single-threaded caller.  This room
must not know plans, other hosts, the database or click, and imports neither
numpy nor pydantic: the agent's process stays small.
"""
