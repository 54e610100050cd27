"""Cases carried out in a forked process with limits of time and memory, one after another."""

from __future__ import annotations

import contextlib
import dis
import io
import os
import resource
import select
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import equipoise

PACKAGE = str(Path(equipoise.__file__).parent)
OURS = (ValueError, TypeError, ImportError, OSError)


@dataclass(frozen=True)
class Case:
    """What is done, in words, and the call that does it."""

    name: str
    call: Callable[[], object]


Draw = Callable[[np.random.Generator], Case]


def run_cases(
    cases: Sequence[Case], *, seconds: float = 10.0, memory: int = 6 * 2**30
) -> dict[str, str]:
    """What went wrong, by the name of the case; empty if every outcome was an allowed one.

    Allowed are success, and an error of ours: a ValueError, TypeError, ImportError or OSError
    that the package itself raises. A process that dies or hangs is started again after the case.
    """
    wrong: dict[str, str] = {}
    start = 0
    while start < len(cases):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(cases, start, writer, memory)
        os.close(writer)
        start = _follow(cases, start, reader, child, seconds, wrong)
        os.close(reader)
    return wrong


def _work(cases: Sequence[Case], start: int, writer: int, memory: int) -> None:
    """The child: report each case as its number and a text, empty where all is well."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        for number in range(start, len(cases)):
            text = judge(cases[number].call)[:2000].encode()
            os.write(writer, struct.pack("<II", number, len(text)) + text)
    finally:
        os._exit(0)


def judge(call: Callable[[], object]) -> str:
    """An empty text for an allowed outcome, else what happened."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            call()
    except OURS as error:
        if _is_raised_by_us(error):
            return "" if str(error).strip() else f"an empty {type(error).__name__}"
        return _tell(error)
    except BaseException as error:
        return _tell(error)
    return ""


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether a `raise` of the package made the error, and not a library called by a line of it.

    Compiled code leaves no frame of its own: the last one is then ours, but stands at a call.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _tell(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = [f for f in frames if f.filename.startswith(PACKAGE)] or frames
    where = f"{Path(place[-1].filename).name}:{place[-1].lineno}" if place else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:300]}"


def _follow(
    cases: Sequence[Case], start: int, reader: int, child: int, seconds: float, wrong: dict
) -> int:
    """Collect what the child reports; gives the first case that is still to be done."""
    hung = False
    for number, text in _read_reports(reader, seconds):
        if number is None:
            hung = True
            break
        if text:
            wrong[cases[number].name] = text
        start = number + 1
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if start < len(cases):
        died = f"the process died (status {status})"
        wrong[cases[start].name] = f"hung for more than {seconds:g} s" if hung else died
        start += 1
    return start


def _read_reports(reader: int, seconds: float) -> Iterator[tuple[int | None, str]]:
    """Numbers of cases with their outcomes; None if there is nothing for too long."""
    while True:
        ready, _, _ = select.select([reader], [], [], seconds)
        if not ready:
            yield None, ""
            return
        head = os.read(reader, 8)
        if len(head) < 8:
            return
        number, length = struct.unpack("<II", head)
        text = b""
        while len(text) < length:
            text += os.read(reader, length - len(text))
        yield number, text.decode(errors="replace")


def describe(wrong: dict[str, str], at_most: int = 40) -> str:
    """The first few of what went wrong."""
    lines = [f"{name}\n    {text}" for name, text in list(wrong.items())[:at_most]]
    return f"{len(wrong)} cases went wrong\n" + "\n".join(lines)


if sys.platform == "win32":  # pragma: no cover
    raise ImportError("forked cases need a system that can fork")
