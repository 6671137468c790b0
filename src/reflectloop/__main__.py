"""`python -m reflectloop`."""

from reflectloop.cli.main import main

main()
