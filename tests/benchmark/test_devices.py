import pytest
import torch

from equipoise.benchmark.devices import choose_device


def test_auto_takes_what_is_there():
    assert choose_device("auto").startswith("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="torch finds no GPU here"):
        choose_device("cuda:0")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="unknown device 'gpu'; use cpu, cuda"):
        choose_device("gpu")
