"""`python -m uraenas`, as the command `uraenas`."""

from uraenas.cli import program

if __name__ == "__main__":
    program()
