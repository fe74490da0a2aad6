"""What the tests of trainings share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """As the commands do: on a busy machine two threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
