"""Reports: what stored records say, as tables and sentences.

Asks `zcdb.store.queries` for values and `zcdb.stats` for verdicts; knows no
SQL, no page and no command line.
"""
