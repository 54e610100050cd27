"""Bad and odd values, arrays, texts and files: the grammar that fuzz cases are drawn from."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import torch
from scipy import sparse


class Rude:
    """An object whose every answer is an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class Rudest:
    """A sequence that promises 60 rows and gives none."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: Any) -> Any:
        raise KeyError("no")


NORMAL = np.random.default_rng(0).normal(size=(60, 3))

SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1, 7, 10**6, 10**12, 10**20, 1 << 20_000, -(10**30)),
    *(0.0, 0.5, 1.0, 1.5, -0.5, 1e-300, 1e308, math.nan, math.inf, -math.inf, 1j),
    *("", "a", "auto", "3", "0.2sd", "nan", "1e999", "cpu", "cuda:99", "x" * 10_000, "[/red]"),
    *("\x00", "\ud800", "ünï", "../..", b"bytes", [], [1], [[1]], (), (1, 2), {}, {"a": 1}, set()),
    *(np.int64(3), np.float32(0.5), np.bool_(True), np.str_("kl"), np.array(2), np.arange(3)),
    *(np.array([]), np.datetime64("2020-01-01"), torch.tensor(3), torch.Generator()),
    *(decimal.Decimal("1.5"), fractions.Fraction(1, 3), pd.NA, pd.NaT, Path("x"), object()),
    *(len, int, Rude(), np.random.default_rng(0), slice(0, 3), Ellipsis, range(3)),
    *(2**70, -(2**70), np.array([1.0]), np.array([[1.0]]), np.ma.masked, np.float64("nan")),
    *(np.complex128(1j), pd.Timestamp("2020-01-01"), dt.date(2020, 1, 1), dt.timedelta(1)),
    *(bytearray(b"x"), memoryview(b"x"), frozenset("ab"), "\u202ex\u0007", "a\nb", "~nobody/x"),
    *(
        Path("/dev/null"),
        Path("/proc/self/mem"),
        "a" * 300 + ".csv",
        pd.Series([1]),
        pd.DataFrame(),
    ),
    *(torch.zeros(2, device="meta"), torch.tensor(0.5, requires_grad=True), np.array("kl")),
    *(Exception("x"), NotImplemented, [None], [math.nan], ["a", 1], {1: 2}, [[]] * 3, "１"),
)

COLUMNS: tuple[Any, ...] = (
    *(None, 0, "labels", [], [0], [0, 1], [None] * 60, ["a"] * 60, list(range(60)), [[0]] * 60),
    *([float("nan")] * 60, [0, math.inf] * 30, [0, "a"] * 30, [0.5, 1.5] * 30, [0, 1] * 30),
    *(
        ["a", None] * 30,
        [True, False] * 30,
        [b"a", b"\xff"] * 30,
        [(0,), (1,)] * 30,
        ["", "é"] * 30,
    ),
    *(np.zeros((60, 1)), np.zeros((60, 2)), np.arange(60) % 2, np.arange(60) % 2 * 1j, {0: 1}),
    *(
        np.zeros(60, dtype="M8[D]"),
        np.zeros(60, dtype=[("a", "i4")]),
        np.array(["x\x00", "y"] * 30),
    ),
    *(np.arange(60, dtype=np.longdouble) % 2, np.full(60, 2**63, dtype=np.uint64), iter([0, 1])),
    *(
        pd.Series([0, 1] * 30, index=range(60, 120)),
        pd.Series([pd.NA, 1] * 30),
        set("ab"),
        object(),
    ),
    *(pd.Categorical(["a", "b"] * 30), torch.arange(60) % 2, torch.zeros(60, 1), Rude(), len),
    *(pd.Series(pd.date_range("2020", periods=60)), ["[/red]", "\\input"] * 30, ["a\nb", "c"] * 30),
    *(
        pd.Series([0, None] * 30, dtype="Int64"),
        pd.Series([0, 1] * 30, dtype="Int64"),
        pd.Series([True, False] * 30, dtype="boolean"),
        pd.Series(["a", None] * 30, dtype="string"),
        pd.Series(["a", "b"] * 30, dtype="string[pyarrow]"),
        pd.Series(pd.Categorical([1.5, 2.5] * 30)),
        pd.Index([0, 1] * 30),
        pd.MultiIndex.from_product([range(30), range(2)]),
        pd.DataFrame({"y": [0, 1] * 30}),
        polars.Series([0, 1] * 30),
        polars.Series(["a", None] * 30),
        pyarrow.array([0, 1] * 30),
        pyarrow.chunked_array([["a"] * 30, ["b"] * 30]),
        sparse.csr_matrix(np.arange(60) % 2),
    ),
    *(
        np.ma.masked_array(np.arange(60) % 2, mask=np.arange(60) == 3),
        (np.arange(60) % 2).astype(">i4"),
        (np.arange(60) % 2).astype(">f8"),
        (np.arange(120) % 2)[::2],
        (np.arange(60) % 2).astype(np.float16),
        (np.arange(60) % 2).astype(bool),
        np.broadcast_to(np.int64(1), 60),
        np.array(1),
        np.zeros((60, 1, 1)),
        np.array([None, 1] * 30, dtype=object),
        np.array([-1, 1] * 30),
        np.array([0, 2**40] * 30),
        np.array([1e300, -1e300] * 30),
        np.array([-0.0, 0.0] * 30),
        np.matrix(np.arange(60) % 2),
        np.array(["a", "b"] * 30, dtype="S1"),
        np.arange(60) % 2 * np.timedelta64(1, "D"),
    ),
    *(
        torch.zeros(60, device="meta"),
        torch.tensor([0.0, 1.0] * 30, requires_grad=True),
        (torch.arange(60) % 2).bool(),
        (torch.arange(60) % 2).to(torch.bfloat16),
        (torch.arange(60) % 2).to_sparse(),
        (torch.arange(60) % 2).to(torch.complex64),
    ),
    *(
        [1, "a", None] * 20,
        [decimal.Decimal(1), decimal.Decimal(2)] * 30,
        [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)] * 30,
        ["x" * 100_000, "y"] * 30,
        ["\u202ea\u202c", "\x1b[31m"] * 30,
        ["a", "a "] * 30,
        [Rude(), 1] * 30,
        [{}, {"a": 1}] * 30,
        [np.array([0]), np.array([1])] * 30,
        [True, 1, 0] * 20,
        ["1", 1] * 30,
        [10**400, 1] * 30,
        ["\ud800", "b"] * 30,
        (number % 2 for number in range(60)),
        {number: number % 2 for number in range(60)},
        bytes(60),
    ),
)

EXAMPLES: tuple[Any, ...] = (
    *(None, 0, "x", [], [[]], [[], []], [1, 2], [[1], [1, 2]], [["a"]] * 60, [[None]] * 60),
    *(np.zeros((60, 0)), np.zeros((0, 3)), np.zeros(60), np.zeros((60, 3)), np.ones((60, 1))),
    *(np.full((60, 2), np.nan), np.full((60, 2), np.inf), np.full((60, 2), 1e308)),
    *(np.zeros((60, 2), dtype=complex), np.zeros((60, 2), dtype=bool), np.zeros((60, 2), "U3")),
    *(np.zeros((60, 2), dtype=object), np.zeros((60, 2), dtype="M8[s]"), np.zeros((60, 2, 2))),
    *(np.zeros((60, 8, 8, 3)), np.zeros((60, 3, 4, 4), dtype=np.uint8), np.zeros((60, 1, 1, 1, 1))),
    *(np.zeros((60, 2), dtype=np.float16), np.zeros((60, 2), dtype=np.longdouble), object(), len),
    *(
        pd.DataFrame({"a": ["x"] * 60}),
        pd.DataFrame({"a": [0.5] * 60, 1: [2] * 60}),
        pd.DataFrame(),
    ),
    *(pd.DataFrame([[1, 2]] * 60, columns=["a", "a"]), pd.DataFrame({"a": [pd.NA] * 60}), {}),
    *(torch.zeros(60, 2, dtype=torch.int8), torch.zeros(60, 2).to_sparse(), torch.zeros(0), set()),
    *(
        torch.full((60, 2), float("nan")),
        torch.zeros(60, 2, requires_grad=True),
        range(60),
        "x" * 60,
    ),
    *(torch.zeros(60, 2, dtype=torch.bfloat16), torch.zeros(60, 2, dtype=torch.complex64), Rude()),
    *(iter([[1.0]]), {"a": [1]}, b"x" * 60, pd.Series([1.0] * 60), np.zeros((60, 2))[::-1]),
    *(
        sparse.csr_matrix(np.eye(60, 3)),
        sparse.coo_matrix(np.eye(60, 3)),
        sparse.csr_array(np.eye(60, 3)),
        polars.DataFrame({"a": [0.5, 1.5] * 30, "b": [1, 2] * 30}),
        polars.DataFrame({"a": [0.5, None] * 30}),
        polars.DataFrame({"a": ["x", "y"] * 30}),
        polars.LazyFrame({"a": [0.5, 1.5] * 30}),
        pyarrow.table({"a": [0.5, 1.5] * 30}),
        pyarrow.table({"a": ["x", "y"] * 30}),
        np.ma.masked_array(np.eye(60, 3), mask=np.eye(60, 3) > 0),
        np.eye(60, 3, dtype=">f4"),
        np.asfortranarray(NORMAL),
        NORMAL[:, ::2],
        NORMAL.astype(np.float16),
        np.array(1.0),
        np.matrix(NORMAL),
        np.broadcast_to(np.float64(1), (60, 3)),
        NORMAL.astype("S8"),
        NORMAL * 1e-320,
        NORMAL * 1e300,
        np.round(NORMAL).astype(np.int64) * 2**60,
        np.zeros((60, 3), dtype="m8[s]"),
        np.zeros((60,), dtype=[("a", "f8"), ("b", "i4")]),
        np.zeros((60, 1, 4, 4), dtype=bool),
        np.full((60, 3, 4, 4), np.nan),
        np.zeros((60, 0, 4, 4)),
        np.zeros((60, 20_000)),
    ),
    *(
        pd.DataFrame({"a": pd.Series([1, None] * 30, dtype="Int64")}),
        pd.DataFrame({"a": pd.Series([1, 2] * 30, dtype="Int64"), "b": [True, False] * 30}),
        pd.DataFrame({"a": pd.Series([1.5, 2] * 30, dtype="float64[pyarrow]")}),
        pd.DataFrame({"a": pd.Categorical(["x", "y"] * 30)}),
        pd.DataFrame({"a": pd.date_range("2020", periods=60)}),
        pd.DataFrame({"a": [1, "x", None] * 20}),
        pd.DataFrame({"a": [10**400, 1] * 30}),
        pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0] * 30)}),
        pd.DataFrame({"x" * 10_000: NORMAL[:, 0], "\u202eb": NORMAL[:, 1]}),
        pd.DataFrame({(1, 2): NORMAL[:, 0], None: NORMAL[:, 1]}),
        pd.DataFrame(NORMAL, index=[0] * 60),
        pd.DataFrame(NORMAL, columns=[0, 0.0, "0"]),
        pd.DataFrame({"a": [[1], [2]] * 30}),
    ),
    *(
        torch.zeros(60, 3, device="meta"),
        torch.zeros(60, 3).to_sparse_csr(),
        torch.zeros(60, 3, dtype=torch.bool),
        torch.eye(60, 3).T.contiguous().T,
        torch.zeros(()),
        torch.quantize_per_tensor(torch.zeros(60, 3), 0.1, 0, torch.qint8),
        [tuple(row) for row in NORMAL.tolist()],
        tuple(NORMAL.tolist()),
        [torch.zeros(3)] * 60,
        [np.zeros(3)] * 59 + [np.zeros(4)],
        [{"a": 1.0}] * 60,
        (row for row in NORMAL),
        {"a": NORMAL[:, 0]},
        memoryview(NORMAL),
        Rudest(),
    ),
)


def _list_odd_tables() -> tuple[pd.DataFrame, ...]:
    """Tables of 60 rows that hold what nobody expects."""
    rng = np.random.default_rng(0)
    label, site = np.arange(60) % 2, np.arange(60) // 2 % 2
    good = pd.DataFrame({"a": rng.normal(size=60) + label, "b": rng.normal(size=60)})
    good = good.assign(label=label, environment=site)
    odd: list[dict[str, Any]] = [
        {"environment": [9, *site[1:]]},
        {"environment": [9, 9, *site[2:]]},
        {"environment": 0},
        {"environment": range(60)},
        {"environment": [*["x"] * 30, *["X"] * 30]},
        {"label": 1},
        {"label": [7, *label[1:]]},
        {"label": ["a b", "\U0001f600"] * 30},
        {"label": ["", " "] * 30},
        {"label": [True, False] * 30},
        {"label": [2**70, -(2**70)] * 30},
        {"label": pd.Categorical(["x", "y"] * 30, categories=["z", "y", "x"])},
        {"label": pd.Series(["x", None] * 30)},
        {"a": 1.0},
        {"a": 0.0, "b": 5},
        {"a": [np.inf, *rng.normal(size=59)]},
        {"a": [2**70] * 60},
        {"a": [10**300, -(10**300)] * 30},
        {"a": np.full(60, 2**63, dtype=np.uint64)},
        {"a": [1e300, -1e300] * 30},
        {"a": [1e-320, -1e-320] * 30},
        {"a": [True, False, False] * 20},
        {"a": pd.date_range("2020", periods=60)},
        {"a": pd.date_range("2020", periods=60, tz="Asia/Tokyo")},
        {"a": pd.to_timedelta(range(60), unit="s")},
        {"a": pd.period_range("2020", periods=60)},
        {"a": pd.Series([1, None] * 30, dtype="Int64")},
        {"a": pd.Series(["1,5", "2,5"] * 30)},
        {"a": ["\U0001f600", "\u202e x"] * 30},
        {"a": [f"word {i}" for i in range(60)]},
        {"a": [[1], [2]] * 30},
        {"a": [1j, 2] * 30},
        {"a": pd.arrays.SparseArray([0.0, 1.0] * 30)},
        {"a": pd.IntervalIndex.from_breaks(range(61))},
        {"a": label},
        {"a": site},
        {"--label": rng.normal(size=60)},
        {"": rng.normal(size=60)},
        {" label": rng.normal(size=60)},
        {"a\nb": rng.normal(size=60), "\\input{x}|": rng.normal(size=60)},
        {"<script>": ["<b>", "&amp;"] * 30},
        {"weights": 1.0, "z": label, "log_scores": site, "match_indices": 0.5 * label},
    ]
    doubled = pd.concat([good, good[["a"]]], axis=1)
    levels = good.set_axis(pd.MultiIndex.from_product([["x"], good.columns]), axis=1)
    tables = [good, *(good.assign(**change) for change in odd), doubled, levels, good[::-1]]
    tables += [good.iloc[:n] for n in (0, 1, 2, 3, 4, 7)] + [
        good.set_index("a"),
        good.rename(columns={"a": 1, "b": 2.5}),
        good[["label", "environment"]],
        good.drop(columns="label"),
    ]
    tables += [good.set_axis([0] * 60, axis=0), pd.concat([good, doubled["label"]], axis=1)]
    return tuple(tables)


ODD_TABLES = _list_odd_tables()

TEXTS: tuple[bytes, ...] = (
    *(b"", b"\x00", b"\xff\xfe", b"{", b"[]", b"null", b"{}", b"0", b'"a"', b"[" * 50_000, b"NaN"),
    *(b'{"version": 2}', b'{"format": "equipoise dataset", "version": 2}', b'{"a": ' * 20_000),
    *(b"a,b\n1", b"label,environment,x\n", b"label,environment,x\n0,0,1\n1,0,2\n0,1,3\n1,1,4\n"),
    *(b"label;environment;x\n0;0;1,5\n1;1;2,5\n", b"a" * 100_000, b'"' * 1000, b"\n" * 1000),
    *(
        b"label,environment,x\n0,0,\n",
        b"label,label,x\n0,0,1\n",
        b"label,environment,x\n0,0,1e999\n",
    ),
    *(
        b"\xef\xbb\xbflabel,environment,x\n0,0,1\n1,0,2\n0,1,3\n1,1,4\n",
        "label,environment,x\n0,0,1\n1,0,2\n0,1,3\n1,1,4\n".encode("utf-16"),
        "label,environment,größe\nü,0,1\n1,0,2\n".encode("latin-1"),
        b"label,environment,x,x\n0,0,1,2\n1,0,2,2\n0,1,3,1\n1,1,4,3\n",
        b"label,environment,x\r0,0,1\r1,0,2\r0,1,3\r1,1,4\r",
        b"label,environment,x\n0,0,1,9\n1,0,2\n0,1\n",
        b"label,environment,x\n0,0,1\x00\n1,0,2\n",
        b"file,label,environment\n/dev/zero,0,0\n../../etc,1,1\n",
    ),
    *(b"\x93NUMPY\x01\x00v\x00{'descr': 'O'", b"PK\x03\x04" + b"\x00" * 40, b"PAR1" + b"\x00" * 20),
    *(b"datasets: x", b"- a", b"&a [*a]", b"!!python/object:os.system {}", b"a: b: c", b"\t- x"),
    *(b"\x80\x04\x95", b"\x10" + b"\x00" * 7 + b'{"a":1}', b"\xff" * 8, b"GIF89a", b"<html>"),
)


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """A file's bytes with a part changed, cut out, doubled or put elsewhere."""
    if not content:
        return rng.bytes(8)
    start, end = sorted(rng.integers(0, len(content) + 1, size=2).tolist())
    kind = rng.integers(6)
    if kind == 0:  # bits
        changed = bytearray(content)
        for place in rng.integers(0, len(content), size=rng.integers(1, 5)):
            changed[place] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    if kind == 1:
        return content[:start]
    if kind == 2:
        return content[:start] + content[end:]
    if kind == 3:
        return content[:end] + content[start:end] + content[end:]
    if kind == 4:
        return content[:start] + rng.bytes(int(rng.integers(1, 9))) + content[start:]
    words = (b"null", b"-1", b"1e999", b"[]", b"{}", b'""', b"true", b"99999999999999999999")
    return content[:start] + words[rng.integers(len(words))] + content[start + 1 :]
