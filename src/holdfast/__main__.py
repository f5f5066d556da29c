"""`python -m holdfast` is `holdfast`."""

from holdfast.cli.main import main

main()
