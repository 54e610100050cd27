"""Cells of near candidates, and how far an anchor is from them at least, in float32."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from equipoise.balance.distances import Boxes, FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.kernels import Float32Array

_ROUNDING = float(np.finfo(np.float32).eps)
_LEAST_LOG = -1e30


def partition(scores: Scores, size: int) -> tuple[IntArray, IntArray]:
    """Rows in an order whose runs are boxes of at most `size`, and where each run starts.

    Split in the middle of the widest label, not at the median: peaked scores crowd in corners,
    and boxes that leave the emptiness out are visited twenty times less.
    """
    tree = cKDTree(scores.prob, leafsize=size, balanced_tree=False)
    starts, waiting = [], [tree.tree]
    while waiting:
        node = waiting.pop()
        if node.split_dim == -1:
            starts.append(node.start_idx)
        else:
            waiting += [node.lesser, node.greater]
    return tree.indices.astype(np.int64), np.append(np.sort(starts), len(scores))


class BoxBounds:
    """The least distance from anchors, or boxes of anchors, to boxes of candidates.

    Each label's term grows with the gap between p and q on either side, so the nearest points
    of two intervals give its least value; the terms of all labels together bound the distance.
    """

    def __init__(self, metric: Metric, boxes: Boxes) -> None:
        self._metric = metric
        self._low = _outward(boxes.low.prob, -np.inf)  # [m, cells]
        self._high = _outward(boxes.high.prob, np.inf)
        if metric.order is None:
            self._log_low = _outward(boxes.low.log, -np.inf)
            self._log_high = _outward(boxes.high.log, np.inf)

    def __len__(self) -> int:
        return int(self._low.shape[1])

    def from_points(self, anchors: Scores, cells: IntArray | slice) -> Float32Array:
        """Lower bounds [n, cells] on the distances of single anchors, rounding taken off."""
        if self._metric.order is not None:
            p = anchors.prob.astype(np.float32).T
            return self._lp(p, p, cells)
        # Each label adds q − p − p·(log q − log p), with q the score in the box nearest to p.
        p = anchors.prob.astype(np.float32)
        log = np.maximum(anchors.log, _LEAST_LOG).astype(np.float32)
        total = np.zeros((len(p), self._low[:1, cells].shape[1]), dtype=np.float32)
        nearest = np.empty_like(total)
        for label in range(p.shape[1]):
            column, log_column = p[:, label, None], log[:, label, None]
            np.maximum(column, self._low[label, cells], out=nearest)
            np.minimum(nearest, self._high[label, cells], out=nearest)
            nearest -= column
            total += nearest
            np.maximum(log_column, self._log_low[label, cells], out=nearest)
            np.minimum(nearest, self._log_high[label, cells], out=nearest)
            nearest -= log_column
            nearest *= column
            total -= nearest
        with np.errstate(invalid="ignore"):
            entropy = -np.where(anchors.prob > 0, anchors.prob * anchors.log, 0.0).sum(axis=1)
        return _without_rounding(total, p.shape[1], 2 * anchors.prob.sum(axis=1) + entropy)

    def from_boxes(self, boxes: Boxes) -> Float32Array:
        """Lower bounds [n, cells] on the distances of all anchors in a box."""
        low, high = _outward(boxes.low.prob, -np.inf), _outward(boxes.high.prob, np.inf)
        if self._metric.order is not None:
            return self._lp(low, high, slice(None))
        total = np.zeros((low.shape[1], len(self)), dtype=np.float32)
        log_low, log_high = (_outward(boxes.low.log, -np.inf), _outward(boxes.high.log, np.inf))
        for label in range(len(low)):
            edges = (low[label, :, None], high[label, :, None])
            log_edges = (log_low[label, :, None], log_high[label, :, None])
            p = np.minimum(np.maximum(edges[0], self._low[label]), edges[1])
            q = np.minimum(np.maximum(p, self._low[label]), self._high[label])
            log_p = np.minimum(np.maximum(log_edges[0], self._log_low[label]), log_edges[1])
            log_q = np.minimum(np.maximum(log_p, self._log_low[label]), self._log_high[label])
            total += (q - p) - p * (log_q - log_p)
        weight = 2 * boxes.high.prob.sum(axis=1) + len(low) / np.e  # p·|log p| is at most 1/e
        return _without_rounding(total, len(low), weight)

    def _lp(self, low: Float32Array, high: Float32Array, cells: IntArray | slice) -> Float32Array:
        total = np.zeros((low.shape[1], self._low[:1, cells].shape[1]), dtype=np.float32)
        gap, other = np.empty_like(total), np.empty_like(total)
        for label in range(len(low)):
            np.subtract(self._low[label, cells], high[label, :, None], out=gap)
            np.subtract(low[label, :, None], self._high[label, cells], out=other)
            np.maximum(gap, other, out=gap)
            np.maximum(gap, 0.0, out=gap)
            if self._metric.name == "l1":
                total += gap
            elif self._metric.name == "l2":
                gap *= gap
                total += gap
            else:
                np.maximum(total, gap, out=total)
        if self._metric.name == "l2":
            np.sqrt(total, out=total)
        loss = np.float32(4 * len(low) * _ROUNDING)
        return np.asarray(np.maximum(total * (1 - loss) - loss, 0.0))


def _without_rounding(total: Float32Array, n_labels: int, weight: FloatArray) -> Float32Array:
    """Take off what rounding can have added to a KL.

    Its 2m summands are at most 4 + KL together, and rounding p and log p moves them by at most
    `weight`, which is Σ p·(2 + |log p|), half a dozen times the float32 unit.
    """
    total *= np.float32(1 - 4 * (n_labels + 6) * _ROUNDING)
    total -= (_ROUNDING * (4 * (n_labels + 6) + 4 * weight)).astype(np.float32)[:, None]
    return np.maximum(total, np.float32(0.0), out=total)


def _outward(edges: FloatArray, direction: float) -> Float32Array:
    """Edges [labels, cells] in float32, rounded away from the box."""
    with np.errstate(over="ignore"):
        near = np.maximum(edges.T, _LEAST_LOG).astype(np.float32)
    return np.ascontiguousarray(np.nextafter(near, np.float32(direction)))
