"""A flipped bit in a file of ours is refused: nothing is computed from damaged numbers."""

import fnmatch
import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from equipoise import CausalBalancer
from equipoise.balance_job import balance_dataset
from equipoise.benchmark import RunSettings, execute_run
from equipoise.benchmark.directory import RunDirectory
from equipoise.benchmark.selection import RECORDS_VERSION
from equipoise.benchmark.sweep import read_manifest
from equipoise.cli import app
from equipoise.data import Examples, open_dataset, save_dataset
from equipoise.data.cache import RowStore
from equipoise.data.images import KnownDigests
from equipoise.files import DamagedFile, UnusableState, load_state, save_state, write_json
from equipoise.theory.outcome import run_cases

FLIPS = 100


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels, sites = rng.integers(2, size=300), rng.integers(2, size=300)
    x = rng.normal(size=(300, 3)) + labels[:, None]
    return Examples(x, labels, np.array(["north", "süd"])[sites], covariate=labels)


def flip_bits(path, n=FLIPS, seed=0):
    """The file once for each of n random flips, and as it was afterwards."""
    content = path.read_bytes()
    rng = np.random.default_rng(seed)
    try:
        for place in rng.choice(8 * len(content), size=n, replace=8 * len(content) < n):
            changed = bytearray(content)
            changed[place // 8] ^= 1 << int(place % 8)
            path.write_bytes(bytes(changed))
            yield int(place)
    finally:
        path.write_bytes(content)


def test_every_flip_in_a_saved_state_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"a": torch.arange(50.0), "b": torch.ones(3, 4, dtype=torch.bool), "c": torch.ones(0)}
    save_state(path, tensors, {"name": "é", "n": 1.5})
    for _ in flip_bits(path, 8 * FLIPS):
        with pytest.raises(ValueError, match="not a readable saved state"):
            load_state(path)
    load_state(path)


def test_every_flip_and_every_moved_page_of_a_large_tensor_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    save_state(path, {"a": torch.arange(10_001, dtype=torch.float32)}, {})
    for _ in flip_bits(path):
        with pytest.raises(UnusableState):
            load_state(path)
    content = path.read_bytes()
    cuts = len(content) - 8192, len(content) - 4096
    path.write_bytes(content[: cuts[0]] + content[cuts[1] :] + content[cuts[0] : cuts[1]])
    with pytest.raises(UnusableState, match="does not fit its digest"):
        load_state(path)


def test_every_flip_in_a_balancer_is_refused(data, tmp_path):
    path = tmp_path / "balancer.safetensors"
    CausalBalancer(hidden=(8,), max_steps=5).fit(data).save(path)
    for _ in flip_bits(path):
        with pytest.raises(ValueError, match="not a readable saved state"):
            CausalBalancer.load(path)
    CausalBalancer.load(path)


@pytest.mark.parametrize("file", ["dataset.json", "examples.csv", "x.npy"])
def test_every_flip_in_a_packed_dataset_is_refused(data, tmp_path, file):
    save_dataset(data, tmp_path / "saved", made_from={"data": "ü"})

    def read():
        opened = open_dataset(tmp_path / "saved")
        return opened.fetch(np.arange(len(opened)))

    for _ in flip_bits(tmp_path / "saved" / file):
        with pytest.raises(ValueError, match=r"damaged|cannot be|no dataset|regular"):
            read()
    assert torch.equal(read(), data.fetch(np.arange(300)))


@pytest.mark.parametrize("file", ["store.json", "rows.bin", "digests.bin"])
def test_a_flip_in_a_cache_is_refused_or_its_row_is_made_again(tmp_path, file):
    keys = [bytes([i]) * 32 for i in range(20)]
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    store = RowStore(tmp_path / "s", (4,), np.float32)
    with store.writing():
        store.add(keys, rows)
    for _ in flip_bits(tmp_path / "s" / file):
        try:
            again = RowStore(tmp_path / "s", (4,), np.float32)
            found = again.find(keys)
            kept = again.read(found[found >= 0])
        except DamagedFile:
            continue
        assert (found < 0).sum() == 1
        assert np.array_equal(kept, rows[found >= 0])


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    settings = RunSettings(
        dataset="tiny", algorithm="ERM", sampling="random", steps=4, checkpoint_every=2
    )
    execute_run(settings, data, path)
    return path


@pytest.mark.parametrize(
    "file",
    ["settings.json", "records.jsonl", "result.json", "best/train-domain.safetensors"],
)
def test_every_flip_in_a_run_is_refused(run, file):
    for place in flip_bits(run / file):
        try:
            found = RunDirectory(run).load_result()
        except ValueError:
            continue
        # The mark at the end of the last record: then there is none, and the run goes on.
        assert found is None, place
        assert file == "records.jsonl"


def test_every_flip_in_a_checkpoint_is_refused(run):
    path = RunDirectory(run).checkpoints.paths()[0]
    for _ in flip_bits(path):
        with pytest.raises(UnusableState):
            load_state(path)


@pytest.mark.parametrize("file", ["settings.json", "balancer.safetensors"])
def test_every_flip_in_a_balance_is_refused(data, tmp_path, file):
    def balance():
        balance_dataset(data, tmp_path / "out", report=False, hidden=(8,), max_steps=5)

    balance()
    hint = {"settings.json": "another output", "balancer.safetensors": "delete it"}[file]
    for _ in flip_bits(tmp_path / "out" / file):
        with pytest.raises(ValueError, match=rf"{file} is .*{hint}"):
            balance()
    balance()


def test_every_flip_in_an_unfinished_fit_is_refused(data, tmp_path):
    path = tmp_path / "fit.safetensors"
    balancer = CausalBalancer(balance_on="all", hidden=(8,), max_steps=5)
    balancer.fit(data, checkpoint=path)
    for _ in flip_bits(path):
        with pytest.raises(UnusableState):
            balancer.fit(data, checkpoint=path)


def test_every_flip_in_a_manifest_of_a_sweep_is_refused(run):
    path = run.parent / "sweep-tiny.json"
    write_json(path, {"version": RECORDS_VERSION, "sweep": "tiny", "runs": {"run": "süd"}})
    for _ in flip_bits(path):
        with pytest.raises(ValueError, match=r"sweep-tiny\.json is damaged|version"):
            read_manifest(path)
    assert read_manifest(path) == [run]


def test_every_flip_in_measured_times_is_refused(run):
    for _ in flip_bits(run / "times.json"):
        with pytest.raises(DamagedFile):
            RunDirectory(run).load_times()
    assert RunDirectory(run).load_times()


@dataclass(frozen=True)
class Half:
    n: int


def test_every_flip_in_the_records_of_a_theorem_is_refused(tmp_path):
    path = tmp_path / "records.jsonl"

    def measure():
        return run_cases(
            [Half(n) for n in range(5)],
            lambda case: {"half": case.n / 2, "none": float("nan")},
            path,
            description="halves",
            verbose=False,
        )

    whole = measure()
    for _ in flip_bits(path):
        with pytest.raises(DamagedFile, match="delete it to start over"):
            measure()
    assert [each["half"] for each in measure()] == [each["half"] for each in whole]


def test_a_flip_in_the_known_digests_of_images_costs_a_second_look(tmp_path):
    entries = {f"{i}.png": ((i, 1000 + i), bytes([i]) * 32) for i in range(20)}
    KnownDigests(tmp_path, tmp_path).remember(entries)
    path = next((tmp_path / "digests").iterdir())
    for _ in flip_bits(path):
        known = KnownDigests(tmp_path, tmp_path)
        for name, (state, digest) in entries.items():
            assert known.find(name, state) in (digest, None)
    assert len(KnownDigests(tmp_path, tmp_path).entries) == 20


#: Every kind of file that is read back, by its name, and the test above that flips its bits.
CHECKED = {
    "out/balancer.safetensors": test_every_flip_in_a_balance_is_refused,
    "out/settings.json": test_every_flip_in_a_balance_is_refused,
    "*/dataset.json": test_every_flip_in_a_packed_dataset_is_refused,
    "*/examples.csv": test_every_flip_in_a_packed_dataset_is_refused,
    "*/x.npy": test_every_flip_in_a_packed_dataset_is_refused,
    "cache/*/store.json": test_a_flip_in_a_cache_is_refused_or_its_row_is_made_again,
    "cache/*/rows.bin": test_a_flip_in_a_cache_is_refused_or_its_row_is_made_again,
    "cache/*/digests.bin": test_a_flip_in_a_cache_is_refused_or_its_row_is_made_again,
    "cache/digests/*.parquet": test_a_flip_in_the_known_digests_of_images_costs_a_second_look,
    "sweep/*/settings.json": test_every_flip_in_a_run_is_refused,
    "sweep/*/records.jsonl": test_every_flip_in_a_run_is_refused,
    "sweep/*/result.json": test_every_flip_in_a_run_is_refused,
    "sweep/*/best/*.safetensors": test_every_flip_in_a_run_is_refused,
    "sweep/*/checkpoints/*": test_every_flip_in_a_checkpoint_is_refused,
    "sweep/*/times.json": test_every_flip_in_measured_times_is_refused,
    "sweep/sweep-*.json": test_every_flip_in_a_manifest_of_a_sweep_is_refused,
    "cache/balancer-*.safetensors": test_every_flip_in_a_balancer_is_refused,
    "theory/*.jsonl": test_every_flip_in_the_records_of_a_theorem_is_refused,
}
#: For people and other programs; equipoise writes them and never reads them. Locks are empty.
NEVER_READ = ("*.parquet", "*.html", "*.txt", "*.png", "*.svg", "*.csv", "*/outcome.json", "*.lock")


def test_every_file_that_commands_leave_is_checked_or_never_read(data, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    save_dataset(data, tmp_path / "packed")
    image = Image.new("RGB", (5, 5))
    for site, label in itertools.product("ab", "xy"):
        (tmp_path / "photos" / site / label).mkdir(parents=True)
        image.save(tmp_path / "photos" / site / label / "0.png")
    (tmp_path / "backbone.py").write_text("import torch\nnet = torch.nn.Linear(3, 2)\n")
    (tmp_path / "s.yaml").write_text(
        f"datasets: {tmp_path / 'packed'}\nalgorithms: ERM\ntest_environments: [0]\n"
        "samplings: [random, balanced]\n"
        "settings: {steps: 2, checkpoint_every: 1, balancer: {max_steps: 2, hidden: 8}}\n"
    )
    given = {entry.name for entry in tmp_path.rglob("*") if entry.is_file()}
    given -= {"dataset.json", "examples.csv", "x.npy"}
    for command in (
        f"balance {tmp_path}/packed --output {tmp_path}/out --steps 2 --quiet",
        f"data pack {tmp_path}/photos --image-size 4 --output {tmp_path}/images --quiet",
        f"data features {tmp_path}/packed --output {tmp_path}/features --quiet "
        f"--backbone {tmp_path}/backbone.py:net",
        f"sweep {tmp_path}/s.yaml --output {tmp_path}/sweep --workers 0 --quiet",
        f"theory balance --quick --output {tmp_path}/theory --quiet",
    ):
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code in (0, 1), result.output
    left = {
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name not in given
    }
    unused = {kind for kind in CHECKED if not fnmatch.filter(left, kind)}
    unknown = {
        name
        for name in left
        if not any(fnmatch.fnmatch(name, kind) for kind in (*CHECKED, *NEVER_READ))
    }
    assert not unknown
    assert not unused
