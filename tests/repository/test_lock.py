"""The locks: what pyproject.toml asks for, one version each, every file by its hash, from no named place."""

from __future__ import annotations

import itertools
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
ASKED = {
    "requirements.lock": [
        *PROJECT["project"]["dependencies"],
        *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
        *GROUPS["dev"],
    ],
    "requirements-build.lock": [*PROJECT["build-system"]["requires"], *GROUPS["build"]],
    "compose/requirements.lock": GROUPS["containers"],
}
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)([^\n]*)\n((?:    --hash=sha256:[0-9a-f]{64}[^\n]*\n)*)", re.MULTILINE
)
FIX = "fix: make lock"


def _pins(lock: str) -> list[tuple[str, str, str]]:
    """(name, version, hashes) of each distribution of a lock."""
    text = (tree.ROOT / lock).read_text()
    return [(canonicalize_name(m[1]), m[2], m[4]) for m in PINNED.finditer(text)]


@pytest.mark.parametrize("lock", ASKED)
def test_the_lock_answers_what_is_asked_for(lock):
    versions = {name: version for name, version, _ in _pins(lock)}
    problems = []
    for line in ASKED[lock]:
        requirement = Requirement(line)
        version = versions.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"{line}: the lock has {version}")
    assert not problems, "\n".join([*problems, FIX])


@pytest.mark.parametrize("lock", ASKED)
def test_every_distribution_is_locked_by_hash(lock):
    unhashed = [name for name, _, hashes in _pins(lock) if not hashes]
    assert not unhashed, f"{unhashed}: no hash\n{FIX}"


@pytest.mark.parametrize("lock", ASKED)
def test_the_lock_names_distributions_only(lock):
    """No index, no address, no file, nothing unpinned: pip's own settings say where things come from."""
    text = (tree.ROOT / lock).read_text()
    rest = [line for line in PINNED.sub("", text).splitlines() if line and not line.startswith("#")]
    assert not rest, "\n".join([*rest, FIX])


@pytest.mark.parametrize("lock", ASKED)
def test_the_lock_does_not_name_the_project_itself(lock):
    """A registry's project of the same name is somebody else's."""
    assert PROJECT["project"]["name"] not in {name for name, _, _ in _pins(lock)}


def test_both_locks_agree():
    build = {name: version for name, version, _ in _pins("requirements-build.lock")}
    differing = [
        name for name, version, _ in _pins("requirements.lock") if build.get(name, version) != version
    ]
    assert not differing, f"{differing}: other versions in the two locks\nfix: make lock ARGS=--upgrade"


def test_the_image_has_the_versions_and_the_files_of_the_clone():
    """A client and the executors that run its functions must agree; the hashes are of every platform's files."""
    clone = {(name, version, hashes) for name, version, hashes in _pins("requirements.lock")}
    differing = [
        f"{name}=={version}"
        for name, version, hashes in _pins("compose/requirements.lock")
        if (name, version, hashes) not in clone
    ]
    assert not differing, f"{differing}: not so in requirements.lock\n{FIX}"


def test_each_dependency_says_what_it_is_for():
    """A comment stands before each, or before the group that it is in."""
    text = (tree.ROOT / "pyproject.toml").read_text()
    listed = text[text.index("\ndependencies = [") : text.index("[project.optional-dependencies]")]
    lines = [line.strip() for line in listed.splitlines()]
    silent = [
        line for before, line in itertools.pairwise(lines) if line.startswith('"') and before.endswith("[")
    ]
    assert not silent, f"{silent}\nfix: a sentence in front of it"
