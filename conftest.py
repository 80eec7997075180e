"""Hands a foreign pytest over to the project's own environment: ``pytest`` works as typed, in any shell.

Whatever pytest finds this file (of a pyenv, of the system, of another venv) is replaced, in the same process
and with the same arguments, by ``.venv/bin/python -m pytest``. Free of everything but the standard library
and pytest itself, and of syntax newer than Python 3.6, because it is read by whatever is there.

It happens in ``pytest_addoption``: called as soon as this file is loaded, which is before pytest refuses
options of plugins that only the project's environment has (``-n 2``). ``TIDEMARK_PYTEST=here`` stays put.
"""

import os
import sys
from typing import List

import pytest

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
CHOICE = "TIDEMARK_PYTEST"
STAY = "here"
HANDED_OVER = "handed-over"  # set on the way, so that it happens once


def pytest_addoption(parser: "pytest.Parser", pluginmanager: "pytest.PytestPluginManager") -> None:
    """Adds no option: leaves this process to the project's own pytest, if it is not already that."""
    choice = os.environ.get(CHOICE)
    if choice == HANDED_OVER:
        del os.environ[CHOICE]  # not for what the tests start
    # A venv's python is a link to the one it was made from: only the prefix tells them apart.
    if os.path.realpath(sys.prefix) == os.path.realpath(VENV) or choice == STAY:
        return
    python = os.path.join(VENV, "bin", "python")
    if not os.access(python, os.X_OK) or not os.path.exists(os.path.join(VENV, "bin", "pytest")):
        raise pytest.UsageError(
            "this pytest (of {}) lacks what the tests need, and there is no .venv to hand over to\n"
            "  hint: 'make up' installs one and starts the stack, 'make test' installs one and tests;\n"
            "        {}={} uses this interpreter all the same".format(sys.prefix, CHOICE, STAY)
        )
    if choice == HANDED_OVER:
        raise pytest.UsageError(
            "handed over to {}, which is not the interpreter of {}\n"
            "  hint: that environment is damaged: 'make clean', then 'make up'".format(python, VENV)
        )
    _hand_over(python, _arguments(pluginmanager), pluginmanager)


def _arguments(pluginmanager: "pytest.PytestPluginManager") -> List[str]:
    """What this pytest was called with, less addopts and PYTEST_ADDOPTS: the next one reads those itself."""
    params = getattr(pluginmanager.getplugin("pytestconfig"), "invocation_params", None)  # since pytest 5.1
    return sys.argv[1:] if params is None else [str(argument) for argument in params.args]


def _hand_over(python: str, args: List[str], pluginmanager: "pytest.PytestPluginManager") -> None:
    """Become ``python -m pytest args``: the same process and terminal, and so the same exit code."""
    capture = pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # gives the file descriptors 1 and 2 back
    sys.stdout.flush()
    sys.stderr.flush()
    environment = dict(os.environ)
    environment[CHOICE] = HANDED_OVER
    for name in ("PYTHONHOME", "__PYVENV_LAUNCHER__"):  # they name the files of the other interpreter
        environment.pop(name, None)
    os.execve(python, [python, "-m", "pytest", *args], environment)
