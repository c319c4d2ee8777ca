"""`python -m ebb` is the command."""
from .command import main

main()
