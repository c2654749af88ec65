"""`python -m zcdb` is the same as `zcdb`."""

from zcdb.cli import main

if __name__ == "__main__":
    main()
