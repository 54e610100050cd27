"""`python -m equipoise.cli`, the same as `equipoise`."""

from equipoise.cli import main

main()
