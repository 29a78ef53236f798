from uraenas.cli import main

main()
