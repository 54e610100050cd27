"""torchdata's StatefulDataLoader resumes balanced batches exactly, workers or not."""

import pytest
import torch
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from interop.accelerate_script import make_sampler


def make_loader(num_workers):
    dataset = TensorDataset(torch.arange(120))
    return StatefulDataLoader(dataset, batch_sampler=make_sampler(), num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_restored_in_mid_epoch_goes_on_with_the_next_batch(num_workers):
    whole = make_loader(num_workers)
    expected = [[batch[0].tolist() for batch in whole] for _ in range(2)]
    interrupted = make_loader(num_workers)
    batches = iter(interrupted)
    for _ in range(5):
        next(batches)
    state = interrupted.state_dict()
    restored = make_loader(num_workers)
    restored.load_state_dict(state)
    found = [[batch[0].tolist() for batch in restored] for _ in range(2)]
    assert found == [expected[0][5:], expected[1]]
