"""What the tests of trainings share."""

import pytest


@pytest.fixture(autouse=True)
def as_the_commands_train(one_thread):
    """With one thread: on a busy machine two wait for each other."""
