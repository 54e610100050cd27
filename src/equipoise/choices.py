"""The former place of `check_choice`; see `equipoise.checks`."""

from equipoise.checks import check_choice

__all__ = ["check_choice"]
