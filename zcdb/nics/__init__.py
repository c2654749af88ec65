"""What the kernel's source, people and machines say about network cards.

The scanner reads a Linux source tree and says for every Ethernet driver what
it can do, under which conditions, and at which line that stands.  The
catalogue joins scans of several kernels with ids, names and published claims.

This room scans purely: it reads files and returns values.  It must not know
the database, click, or any machine's own cards.  Kernel source text never
leaves a scan: facts, names, paths, line numbers and line hashes do.
"""
