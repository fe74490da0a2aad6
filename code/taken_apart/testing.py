"""For the tests of a reader's own module, in pytest or any other runner."""

from collections.abc import Callable
from typing import Any

from .doctor import diagnose


def assert_healthy(
    module: Callable,
    /,
    *inputs: Any,
    warnings: bool = False,
    quick: bool = False,
    **kwargs: Any,
) -> None:
    """Fail with the diagnosis as message where `diagnose` finds a fault.

    `warnings=True` fails for warnings too; `quick=True` leaves out the costlier probes.
    All else is the call to examine: `module(*inputs, **kwargs)`. Raises AssertionError,
    and TypeError if `module` cannot be called.

        def test_my_encoder():
            assert_healthy(MyEncoder(), torch.randint(1000, (8, 20)))
    """
    __tracebackhide__ = True  # pytest shows the reader's line, not this one
    diagnosis = diagnose(module, *inputs, quick=quick, **kwargs)
    severities = ("fault", "warning") if warnings else ("fault",)
    found = any(finding.severity in severities for finding in diagnosis)
    if found or diagnosis.misuse:
        raise AssertionError(str(diagnosis))
