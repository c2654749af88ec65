"""The declaration: what an experiment file says, checked and planned.

`spec` reads a file (`form` is its form, `checks` what its keys mean together,
`problems` and `positions` the mistakes with their place), `plan` expands it
into cases and seeded blocks (`cases`), `outline` prints the plan.

Knows no engine, host or database: a file can be read, checked and planned on
any machine.
"""
