"""`python -m dflash_guard` is the same as `dflash-guard`."""

from dflash_guard.cli import main

if __name__ == "__main__":
    main()
