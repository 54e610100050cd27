"""Rows are found by content, survive a killed writer, and are read by other processes."""

import os
import pickle

import numpy as np
import pytest

from equipoise.data.cache import RowStore

KEYS = [bytes([i]) * 32 for i in range(4)]
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def store(tmp_path):
    made = RowStore(tmp_path / "store", (2,), np.float32)
    with made.writing():
        made.add(KEYS[:3], ROWS[:3])
    return made


def test_a_row_is_found_by_its_digest_and_an_unknown_one_is_not(store):
    assert store.find([KEYS[2], KEYS[3], KEYS[0]]).tolist() == [2, -1, 0]
    assert store.read(np.array([2, 0])).tolist() == ROWS[[2, 0]].tolist()
    assert store.read(np.array([], dtype=np.int64)).shape == (0, 2)


def test_rows_added_after_the_first_reading_are_read(store):
    store.read(np.array([0]))
    with store.writing():
        store.add(KEYS[3:], ROWS[3:])
    assert store.read(store.find([KEYS[3]])).tolist() == ROWS[3:].tolist()


@pytest.mark.parametrize(("file", "cut"), [("digests.bin", 40), ("rows.bin", 5)])
def test_what_a_killed_writer_left_half_written_is_written_again(store, file, cut):
    path = store.path / file
    os.truncate(path, path.stat().st_size - cut)
    found = store.find(KEYS)
    assert (found >= 0).sum() < 3
    missing = np.flatnonzero(found < 0)
    with store.writing():
        store.add([KEYS[i] for i in missing], ROWS[missing])
    assert store.read(store.find(KEYS)).tolist() == ROWS.tolist()


def test_a_copy_in_another_process_opens_the_file_and_not_a_copy_of_it(store):
    store.read(np.array([0]))
    packed = pickle.dumps(store)
    assert len(packed) < 1000
    assert pickle.loads(packed).read(np.array([1])).tolist() == ROWS[1:2].tolist()


def test_rows_of_another_shape_are_refused(store):
    with pytest.raises(ValueError, match="delete that directory"):
        RowStore(store.path, (3,), np.float32)
    with store.writing(), pytest.raises(ValueError, match="got 1 digests"):
        store.add(KEYS[:1], ROWS[:2])
    assert RowStore.reopen(store.path).shape == (2,)
    assert RowStore.reopen(store.path / "nothing") is None


def test_a_damaged_description_is_named(store):
    (store.path / "store.json").write_text("{")
    with pytest.raises(ValueError, match=r"store.json is damaged .* delete that directory"):
        RowStore.reopen(store.path)
