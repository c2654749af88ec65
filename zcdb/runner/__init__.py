"""Executes a plan on agents and returns records through a callback.

`execute` walks the plan, `bench` drives the two ends of a link, `assemble`
turns what the ends read into a trial's record.  The room knows agents and
plans; it must not know SQL or click.
"""
