"""`python -m equipoise`, the same as the command `equipoise`."""

import sys


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from equipoise.cli import main as run
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
