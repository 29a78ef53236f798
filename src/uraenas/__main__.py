"""`python -m uraenas`, as the command `uraenas`."""

from uraenas.cli import main

if __name__ == "__main__":
    main()
