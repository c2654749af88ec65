"""zcdb: the lab notebook and the public record of zero-copy networking."""

__version__ = "0.1.0"
