"""What the kernel's source, people and machines say about network cards.

The scanner reads a Linux source tree and says for every Ethernet driver what
it can do, under which conditions, and at which line that stands.  The
catalogue joins scans of several kernels with ids, names and published claims;
`summary` says of one machine's card what to expect of it, `probe` turns what
it showed into claims, `conflicts` finds what contradicts what.

This room computes purely: files and facts in, values out.  `netlink` alone
asks the running kernel.  It must not know the database, click, hosts or runs.
Kernel source text never leaves a scan: facts, names, paths, line numbers and
line hashes do.
"""
