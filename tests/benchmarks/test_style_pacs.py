"""The style worlds are dealt as they are described."""

from __future__ import annotations

import numpy as np

from benchmarks.style_pacs import VARIABLE, deal, main, share_of_style, weigh_by_style

LABEL, STYLE = (codes.ravel() for codes in np.meshgrid(np.arange(7), np.arange(4)))
LABEL, STYLE = np.repeat(LABEL, 800), np.repeat(STYLE, 800)


def test_the_preferred_style_has_the_share_of_its_environment():
    dealt = deal(LABEL, STYLE, (0.9, 0.7), 1, np.random.default_rng(0))
    preferred = STYLE[dealt.train] == (LABEL[dealt.train] + 1) % 4
    shares = [preferred[dealt.environments == e].mean() for e in range(2)]
    np.testing.assert_allclose(shares, (0.9, 0.7), atol=0.01)


def test_no_image_is_dealt_twice_and_all_cells_are_tested():
    dealt = deal(LABEL, STYLE, (0.95, 0.85), 0, np.random.default_rng(0))
    rows = np.concatenate([dealt.train, dealt.test])
    assert len(np.unique(rows)) == len(rows)
    assert len(set(zip(LABEL[dealt.test], STYLE[dealt.test], strict=True))) == 28


def test_weights_by_style_even_the_labels_of_a_style_out():
    dealt = deal(LABEL, STYLE, (0.95, 0.85), 0, np.random.default_rng(0))
    y, style = LABEL[dealt.train], STYLE[dealt.train]
    weights = weigh_by_style(y, style, dealt.environments)
    table = np.zeros((4, 7))
    np.add.at(table, (style, y), weights)
    np.testing.assert_allclose(table / table.sum(axis=1, keepdims=True), 1 / 7)


def test_the_share_of_matches_with_the_style_leaves_missing_ones_out():
    indices = np.array([[[-1, -1], [1, 2]], [[0, -1], [-1, -1]], [[0, -1], [-1, -1]]])
    assert share_of_style(indices, np.array([0, 0, 1])) == (0.5 + 1 + 0) / 3


def test_without_the_file_it_is_skipped_with_a_sentence(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    main([])
    assert capsys.readouterr().out.startswith("skipped: no file of PACS features")
