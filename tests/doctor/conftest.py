"""What the doctor's tests share."""

import pytest
from taken_apart import doctor


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch):
    """A busy machine must not cut an examination short."""
    monkeypatch.setattr(doctor, "SECONDS", 1e9)
