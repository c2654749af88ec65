"""A host behind a pipe.

One agent process a host (or a network namespace) speaks JSON lines on its
standard input and output: one request, one reply.  `server` runs where the
work is done, `client` where the run is driven, `protocol` is what both know.
The room knows how to start and read endpoints and soakers; it must not know
what a case or a run is for, nor the database.
"""
