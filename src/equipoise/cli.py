"""The commands: parse, call, print."""


def main() -> None:
    """Entry point of the `equipoise` command."""
