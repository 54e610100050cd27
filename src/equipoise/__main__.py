"""`python -m equipoise`, the same as the command `equipoise`."""

import sys


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from equipoise.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"error: the commands need {error.name}: pip install 'equipoise[cli]'", file=sys.stderr
        )
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
