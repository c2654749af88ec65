"""The store: the only room with SQL.

It keeps the records of the ground floor in SQLite or PostgreSQL (`write`) and
answers what a page or a table needs as plain frozen objects (`queries`).
It knows neither the engine that measured nor the page that shows.
"""
