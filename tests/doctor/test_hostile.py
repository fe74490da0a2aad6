"""A hostile module is survived, and shows nothing on the screen."""

import pytest
from doctor_cases.parts import tokens
from hostile import HOSTILE, Writer
from taken_apart.doctor import diagnose


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_is_survived(name, capsys):
    diagnosis = diagnose(*HOSTILE[name]())
    assert str(diagnosis)
    assert diagnosis._repr_mimebundle_()["text/html"]
    assert capsys.readouterr().out == ""


def test_endless_recursion_is_a_finding():
    assert "RecursionError" in diagnose(*HOSTILE["endless"]())[0].title


def test_a_module_that_prints_and_writes_is_kept_quiet(tmp_path, capsys):
    diagnosis = diagnose(Writer(tmp_path / "out"), tokens())
    assert capsys.readouterr().out == ""
    assert diagnosis[0].kind == "notebook / display"
