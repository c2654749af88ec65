"""Foreign tools as executors: netperf, iperf3, NFS, FTP, or any command.

A tool's processes take the place of zcdb's own endpoints in a trial: same
soakers, same window, same pinning.  What they move and what they cost is read
from outside, at each edge; what they print is kept and compared.  One module a
tool says which processes it takes; `end` runs them.

Must not know the engine, a plan, the runner, the database or click.
"""
