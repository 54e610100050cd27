import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from safetensors.torch import load_file, save_file

from equipoise.algorithms import DistributedRanks, choose_device, list_algorithms

from .tiny import make_double, tiny_batches

# A rank mixes inputs, cuts batches or averages contexts over its own share.
LOCAL = {"Mixup", "MLDG", "ARM"}
STEPS = 3
OFF_SCHEDULE = {
    "IRM": {"irm_penalty_anneal_iters": 1},
    "VREx": {"vrex_penalty_anneal_iters": 1},
    "Fishr": {"penalty_anneal_iters": 1},
    "PI": {"pi_partition_steps": 1},
    "JTT": {"jtt_identification_steps": 1},
    "EIIL": {"eiil_reference_steps": 1},
}


def build(name):
    return make_double(name, lr=1e-2, **OFF_SCHEDULE.get(name, {}))


def shares(batches, rank):
    """The first rank has the smaller share of each environment's batch."""
    cuts = [len(y) // 3 for _, y in batches]
    keep = [slice(0, cut) if rank == 0 else slice(cut, None) for cut in cuts]
    return [(x[part], y[part]) for (x, y), part in zip(batches, keep, strict=True)]


def train_a_share(rank, directory):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2
    )
    ended = {}
    for name in list_algorithms():
        algorithm = build(name)
        algorithm.ranks = DistributedRanks()
        for seed in range(STEPS):
            batches = tiny_batches((9, 7), seed=seed, dtype=torch.float64)
            algorithm.update(shares(batches, rank))
        ended |= {f"{name} {key}": value for key, value in algorithm.state_dict().items()}
    save_file(ended, f"{directory}/rank{rank}.safetensors")
    dist.destroy_process_group()


def test_two_ranks_equal_one_process_and_end_in_step(tmp_path):
    multiprocessing.spawn(train_a_share, args=(str(tmp_path),), nprocs=2)
    first, second = (load_file(tmp_path / f"rank{rank}.safetensors") for rank in (0, 1))
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []
    for name in set(list_algorithms()) - LOCAL:
        alone = build(name)
        for seed in range(STEPS):
            alone.update(tiny_batches((9, 7), seed=seed, dtype=torch.float64))
        for key, value in alone.state_dict().items():
            both = first[f"{name} {key}"]
            assert torch.allclose(both, value, rtol=1e-6, atol=1e-9), f"{name} {key}"


def test_auto_takes_what_is_there():
    assert choose_device("auto").startswith("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="torch finds no GPU here"):
        choose_device("cuda:0")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="unknown device 'gpu'; use cpu, cuda"):
        choose_device("gpu")
