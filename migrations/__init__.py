"""Alembic's folder: the steps from one form of the database to the next.

`zcdb.store.session` runs them; the files in `versions` import nothing of zcdb.
"""
