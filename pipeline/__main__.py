"""`python -m pipeline`."""

from pipeline.cli import main

main(prog_name="python -m pipeline")
