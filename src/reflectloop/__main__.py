"""`python -m reflectloop`."""

from reflectloop.cli.start import main

main()
