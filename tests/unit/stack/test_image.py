from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.errors import JavaError, TestbedError
from tidemark.processes import base_environment
from tidemark.stack.compose import image
from tidemark.stack.install import hadoop_defaults_jar, jars
from tidemark.stack.install.toolchain import Spark
from tidemark.waiting import wait_until

SPARK = Spark(Path("python"), "3.11.0", image.pyspark_version(), Path("pyspark"))
LS_NOTHING = '"image ls") exit 0;;'
LS_BASE = '"image ls") case "$*" in *debian*) echo 1a2b;; esac;;'
GOOD_COMPOSE = '"compose --progress") exit 0;;'
GOOD_PIP = 'while [ "$1" != --wheel-dir ]; do shift; done; mkdir "$2"; touch "$2/pyspark.whl"'


def quiet(_text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """An own cache, and jars that need not be fetched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jar = tmp_path / "some.jar"
    jar.touch()
    monkeypatch.setattr(
        jars, "provide", lambda _java, _spark, groups, _say: {group: [jar] for group in groups}
    )
    monkeypatch.setattr(jars, "missing", lambda _jars: [])
    return tmp_path / "cache" / "tidemark" / "image"


@pytest.fixture
def docker(executable, monkeypatch, tmp_path):
    """A function that puts a ``docker`` of these answers on ``PATH``, and a pip; returns the file of its calls."""

    def put(*answers: str, pip: str = GOOD_PIP) -> Path:
        calls = tmp_path / "calls"
        cases = "\n".join(answers)
        script = f'echo "$*" >> {calls}\ncase "$1 $2" in\n{cases}\n*) echo "not expected: $*"; exit 9;;\nesac'
        executable("docker", script)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(sys, "executable", str(executable("python", pip)))
        monkeypatch.setattr(image.platform, "python_version", lambda: f"{image.PYTHON}.9")
        return calls

    return put


@pytest.fixture
def recipe(monkeypatch, tmp_path) -> Path:
    """A copy of what the image is made of that may be changed."""
    folder = tmp_path / "compose"
    folder.mkdir()
    for name in ("Dockerfile", "requirements.lock"):
        (folder / name).write_bytes((paths.compose_dir() / name).read_bytes())
    (folder / "jars.lock").write_bytes(jars.LOCK.read_bytes())
    monkeypatch.setattr(paths, "compose_dir", lambda: folder)
    monkeypatch.setattr(jars, "LOCK", folder / "jars.lock")
    return folder


def failure() -> TestbedError:
    with pytest.raises(TestbedError) as error:
        image.provide(SPARK, None, quiet)
    return error.value


def test_the_tag_does_not_depend_on_the_folder_of_the_dockerfile(recipe, monkeypatch):
    copied = image.tag_of()
    monkeypatch.undo()
    assert re.fullmatch(r"[0-9a-f]{16}", copied)
    assert image.tag_of() == copied


@pytest.mark.parametrize("name", ["Dockerfile", "requirements.lock", "jars.lock"])
def test_the_tag_changes_with_everything_that_determines_the_image(recipe, name):
    before = image.tag_of()
    with (recipe / name).open("a") as file:
        file.write("\n")
    assert image.tag_of() != before


def test_the_tag_changes_with_the_architecture(monkeypatch):
    before = image.tag_of()
    monkeypatch.setattr(image.platform, "machine", lambda: "another")
    assert image.tag_of() != before


def test_a_client_of_the_same_versions_matches():
    assert image.mismatch(f"{image.PYTHON}.2", image.pyspark_version()) == ""


@pytest.mark.parametrize(
    ("python", "spark", "named"),
    [
        ("3.12.1", image.pyspark_version(), "3.12.1"),
        ("3.1.1", image.pyspark_version(), "3.1.1"),
        ("3.11.2", "9.9.9", "9.9.9"),
    ],
)
def test_a_client_of_other_versions_is_a_mismatch_that_names_them(python, spark, named):
    assert named in image.mismatch(python, spark)


def test_the_jars_are_those_of_the_lock():
    connector = jars.connector_version(image.pyspark_version())
    broker = [f"{image.JARS}/broker/{jar.name}-{jar.version}.jar" for jar in jars.locked("broker")]
    wanted = jars.locked("connector", f"spark-{connector}")
    assert image.jar_paths("broker") == broker
    assert image.jar_paths("connector") == [
        f"{image.JARS}/connector/{jar.name}-{jar.version}.jar" for jar in wanted
    ]


def test_the_dockerfile_has_the_paths_and_the_label_that_the_module_names():
    text = (paths.compose_dir() / "Dockerfile").read_text()
    for wanted in (image.JAVA_HOME, image.VENV_PYTHON, image.SPARK_HOME, image.JARS):
        assert wanted in text
    name, value = image.LABEL.split("=")
    assert f'{name}="{value}"' in text


def test_the_dockerfile_pulls_nothing_but_its_base():
    text = (paths.compose_dir() / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    assert "syntax=" not in text


@pytest.mark.parametrize("uid", [0, 1000, 4_000_000])
def test_every_user_has_exactly_one_name(uid):
    lines = [line.split(":") for line in image.passwd(uid, 7).splitlines()]
    assert [line[0] for line in lines if line[2] == str(uid)] == ["tidemark"]
    assert all(len(line) == 7 for line in lines)


def test_an_existing_image_is_not_built_again(docker):
    calls = docker('"image ls") echo 1a2b;;')
    assert image.provide(SPARK, None, quiet) == f"tidemark:{image.tag_of()}"
    assert calls.read_text() == f"image ls --quiet tidemark:{image.tag_of()}\n"


def test_an_image_is_built_from_a_context_that_is_removed_afterwards(docker, cache, tmp_path):
    shown = tmp_path / "shown"
    show = f'(echo "$TIDEMARK_IMAGE_TAG"; cd "$TIDEMARK_IMAGE_CONTEXT"; find . -type f | sort) > {shown}'
    docker(LS_BASE, f'"compose --progress") case "$*" in *build) {show};; esac;;')
    messages: list[str] = []
    name = image.provide(SPARK, None, messages.append)
    found = [f"./jars/{group}/some.jar" for group in ("broker", "connector", "files")]
    context = [
        "./Dockerfile",
        *sorted([*found, f"./jars/files/{hadoop_defaults_jar.name()}"]),
        "./wheels/pyspark.whl",
    ]
    assert shown.read_text().split() == [name.partition(":")[2], *context]
    assert sorted(path.name for path in cache.iterdir()) == ["build.log", "lock"]
    assert any("building" in text for text in messages)


def test_only_images_beyond_the_newest_two_are_removed(docker):
    names = "echo tidemark:a; echo stranger:a; echo '<none>:<none>'; echo tidemark:b; echo tidemark:c"
    calls = docker(
        f'"image ls") case "$*" in *debian*) echo 1a2b;; *label=tidemark.image=stack*) {names};; esac;;',
        GOOD_COMPOSE,
        '"image rm") exit 1;;',
    )
    image.provide(SPARK, None, quiet)
    assert [line for line in calls.read_text().splitlines() if " rm " in line] == [
        "image rm tidemark:b tidemark:c"
    ]


def test_without_docker_the_hint_names_the_local_backend(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = failure()
    assert "docker" in error.detail
    assert "local backend" in error.hint


def test_an_unreachable_engine_is_not_taken_for_a_missing_image(docker):
    docker('"image ls") echo "Cannot connect to the Docker daemon" >&2; exit 1;;')
    error = failure()
    assert error.message == "the Docker engine cannot be reached"
    assert "Cannot connect" in error.detail
    assert "docker info" in error.hint


def test_without_compose_nothing_is_collected(docker):
    docker(LS_BASE, '"compose --progress") echo "unknown flag: --progress"; exit 125;;', pip="exit 1")
    error = failure()
    assert error.message == "no Docker Compose was found"
    assert "unknown flag" in error.detail


def test_a_base_image_that_cannot_be_pulled_has_a_hint(docker):
    docker(LS_NOTHING, GOOD_COMPOSE, '"pull debian:bookworm-slim") echo "no such host"; exit 1;;')
    error = failure()
    assert error.message == "the base image debian:bookworm-slim cannot be pulled"
    assert "no such host" in error.detail
    assert "docker import - debian:bookworm-slim" in error.hint


def test_a_failing_pip_shows_the_end_of_its_output(docker, cache):
    docker(LS_BASE, GOOD_COMPOSE, pip="echo 'No matching distribution'; exit 1")
    error = failure()
    assert "packages could not be collected" in error.message
    assert "No matching distribution" in error.detail
    assert str(cache / "build.log") in error.detail
    assert "pip" in error.hint
    assert not (cache / "context").exists()


def test_a_failing_build_shows_the_end_of_its_log(docker, cache):
    docker(LS_BASE, '"compose --progress") case "$*" in *build) echo "step 7 failed"; exit 17;; esac;;')
    error = failure()
    assert error.message == f"tidemark:{image.tag_of()} cannot be built"
    assert "ended with 17" in error.detail
    assert "step 7 failed" in error.detail
    assert not (cache / "context").exists()


def test_a_full_disk_is_the_hint_whichever_step_failed(docker):
    docker(
        LS_BASE,
        '"compose --progress") case "$*" in *build) echo "x: no space left on device"; exit 1;; esac;;',
    )
    assert "docker system df" in failure().hint


def test_a_cache_that_cannot_be_written_is_an_error(docker, cache):
    docker(LS_BASE, GOOD_COMPOSE)
    cache.parent.mkdir(parents=True)
    cache.touch()
    error = failure()
    assert "cannot be built" in error.message
    assert "XDG_CACHE_HOME" in error.hint


def test_a_build_that_hangs_is_ended(docker, monkeypatch):
    monkeypatch.setattr(image, "_STEP_S", 0.3)
    docker(LS_BASE, '"compose --progress") case "$*" in *build) exec sleep 60;; esac;;')
    assert "did not end in 0.3 s" in failure().detail


def test_another_python_cannot_build_the_image(docker, monkeypatch):
    docker(LS_BASE, GOOD_COMPOSE)
    monkeypatch.setattr(image.platform, "python_version", lambda: "3.99.0")
    error = failure()
    assert "3.99.0" in error.detail
    assert image.PYTHON in error.hint


def test_without_java_only_cached_jars_can_be_used(docker, monkeypatch, tmp_path):
    docker(LS_BASE, GOOD_COMPOSE)
    image.provide(SPARK, None, quiet)
    monkeypatch.setattr(jars, "missing", list)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError):
        image.provide(SPARK, None, quiet)


def test_an_interrupted_build_ends_its_children_and_leaves_nothing(docker, cache, tmp_path):
    """The build is a grandchild, as Compose is; what is interrupted is not the terminal's whole group."""
    started = tmp_path / "started"
    build = (
        f'*build) sh -c "echo \\$\\$ > {started}.part; mv {started}.part {started}; exec sleep 60"; exit 0;;'
    )
    docker(LS_BASE, f'"compose --progress") case "$*" in {build} esac;;')
    main = threading.get_ident()

    def interrupt() -> None:
        wait_until(started.exists, 20, lambda: "the build to start")
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        image.provide(SPARK, None, quiet)
    pid = int(started.read_text())
    wait_until(lambda: not Path("/proc", str(pid), "exe").exists(), 20, lambda: f"process {pid} to end")
    assert not (cache / "context").exists()


def test_only_one_build_runs_at_a_time(docker, cache, tmp_path):
    """The second waits, and then finds the image of the first."""
    built = tmp_path / "built"
    calls = docker(
        f'"image ls") case "$*" in *debian*) echo 1a2b;; *quiet*) test ! -e {built} || echo 3c4d;; esac;;',
        f'"compose --progress") case "$*" in *build) touch {built};; esac;;',
    )
    lock = f"f = open({str(cache / 'lock')!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    program = f"import fcntl, sys; {lock}; print(flush=True); sys.stdin.read()"
    cache.mkdir(parents=True)
    python = Path(sys.prefix, "bin", "python")
    with subprocess.Popen(
        [python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=base_environment()
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        second = threading.Thread(target=image.provide, args=(SPARK, None, quiet))
        second.start()
        wait_until(calls.exists, 20, lambda: "the second build to start")
        built.touch()
        holder.communicate()
    second.join()
    assert " build" not in calls.read_text()
