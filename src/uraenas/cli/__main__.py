from uraenas.cli import program

program()
