"""The image of the compose backend, in which brokers, master, workers and drivers run: its content and its build.

Its tag is a digest of ``compose/Dockerfile``, the two locks (Python packages and jars) and the machine's architecture.
The project's own code is not in it. It is built if the engine does not have it, from a build context of verified files
in the user's cache. Uses Docker's command line only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tidemark import paths
from tidemark.errors import TestbedError
from tidemark.processes import tail
from tidemark.stack.api import Say
from tidemark.stack.install import hadoop_defaults_jar, jars
from tidemark.stack.install.toolchain import Spark, find_java

REPOSITORY = "tidemark"
PYTHON = "3.11"
"""Python's minor version in the image, which is Debian bookworm's."""
JAVA_HOME = "/opt/tidemark/java"
JAVA = f"{JAVA_HOME}/bin/java"
VENV_PYTHON = "/opt/tidemark/venv/bin/python"
SPARK_HOME = "/opt/tidemark/spark"
JARS = "/opt/tidemark/jars"
LABEL = "tidemark.image=stack"
"""Set by the Dockerfile; only images with this label are ever removed."""
KEPT = 2
"""Images to keep: the current one, and one for a switch back to an earlier checkout."""
_COMMAND_S = 60
"""Calibration: the engine answers in 0.1 s; later only while it writes an image to a slow disk."""
_STEP_S = 900
"""Calibration: packages take 8 s from pip's cache, 1 to 2 minutes without; the image 45 s on two cores."""
_END_S = 5.0
"""Calibration: Compose ends within 1 s of SIGTERM."""
_SPACE_HINT = (
    "the user's cache must be writable and have 2 GB free (XDG_CACHE_HOME moves it), the engine 4 GB: "
    "`docker system df` shows its use, `docker builder prune` removes the build cache"
)


def tag_of() -> str:
    """The digest (16 hex digits) of everything that determines the image. Reads three small files."""
    digest = hashlib.sha256(platform.machine().encode())
    for path in (_recipe("Dockerfile"), _recipe("requirements.lock"), jars.LOCK):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(hadoop_defaults_jar.content())
    return digest.hexdigest()[:16]


def pyspark_version() -> str:
    """The version of PySpark in the image, from its lock."""
    return _named(r"^pyspark==(\S+)", "requirements.lock")


def jar_paths(group: str) -> list[str]:
    """The paths in the image of the jars of ``broker``, ``files`` or ``connector``, in the order of the lock."""
    names = [jar.path.name for jar in jars.locked(*_groups()[group])]
    return [
        f"{JARS}/{group}/{name}"
        for name in ([hadoop_defaults_jar.name()] if group == "files" else []) + names
    ]


def passwd(uid: int, gid: int) -> str:
    """The ``/etc/passwd`` to mount into a Spark container: Hadoop requires a name for the user."""
    own = f"{REPOSITORY}:x:{uid}:{gid}::/tmp:/bin/sh\n"
    return own if uid == 0 else f"root:x:0:0::/:/bin/sh\n{own}"


def mismatch(python_version: str, spark_version: str) -> str:
    """Why a client with this Python and PySpark cannot use the image; empty if it can.

    A Python function that a pipeline sends to executors is bytecode, which another minor version cannot run.
    """
    if python_version.split(".")[:2] != PYTHON.split("."):
        return f"the image has Python {PYTHON}, the client Python {python_version}"
    if spark_version != pyspark_version():
        return f"the image has PySpark {pyspark_version()}, the client PySpark {spark_version}"
    return ""


def provide(spark: Spark, java: Path | None, say: Say) -> str:
    """The name of the image, ``tidemark:DIGEST``, which is built if the engine does not have it.

    ``spark`` (its Ivy) and ``java`` are used only if jars must be fetched. Raises ``TestbedError`` if there is no
    engine or the build fails, ``JavaError`` or ``FetchError`` if jars cannot be fetched.
    """
    name = f"{REPOSITORY}:{tag_of()}"
    if _has(name):
        return name
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        with (_folder() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one build at a time on this machine
            if not _has(name):  # another process may have built it meanwhile
                _build(name, spark, java, say)
    except OSError as error:
        raise TestbedError(f"{name} cannot be built", detail=str(error), hint=_SPACE_HINT) from error
    return name


def _recipe(name: str) -> Path:
    return paths.compose_dir() / name


def _named(pattern: str, recipe: str) -> str:
    found: list[str] = re.findall(pattern, _recipe(recipe).read_text(encoding="utf-8"), re.MULTILINE)
    return found[0]


def _folder() -> Path:
    """The folder of image builds in the user's cache; only a log remains there after a build."""
    return paths.cache_dir() / "image"


def _groups() -> dict[str, tuple[str, ...]]:
    """Group in the image -> groups of the lock."""
    broker, files, *connector = jars.groups_of(pyspark_version())
    return {"broker": (broker,), "files": (files,), "connector": tuple(connector)}


def _build(name: str, spark: Spark, java: Path | None, say: Say) -> None:
    """Build the image and clean up. The caller holds the lock."""
    compose = ["docker", "compose", "--progress", "plain", "--file", str(_recipe("build.yaml"))]
    context = (
        _folder() / "context"
    )  # always the same name, so that the builder reuses what it was sent before
    variables = {"TIDEMARK_IMAGE_TAG": name.partition(":")[2], "TIDEMARK_IMAGE_CONTEXT": str(context)}
    (_folder() / "build.log").write_bytes(b"")
    _run(
        [*compose, "version"], variables, "no Docker Compose was found", "install Docker's Compose v2 plugin"
    )
    _provide_base(say)
    shutil.rmtree(context, ignore_errors=True)
    try:
        _fill(context, spark, java, say)
        say(
            f"building the image {name}: takes a minute, and only after a change of the Dockerfile or the locks"
        )
        _run([*compose, "build"], variables, f"{name} cannot be built", "the log shows the step that failed")
    finally:
        shutil.rmtree(context, ignore_errors=True)
    with suppress(TestbedError):  # the new image exists; Docker refuses to remove one that a container uses
        _remove_old(name)


def _remove_old(name: str) -> None:
    names = _docker(
        "image", "ls", "--filter", f"label={LABEL}", "--format", "{{.Repository}}:{{.Tag}}"
    ).split()
    others = [other for other in names if other.startswith(f"{REPOSITORY}:") and other != name]
    if old := others[KEPT - 1 :]:  # the newest are listed first
        _docker("image", "rm", *old)


def _has(name: str) -> bool:
    """Whether the engine has an image. ``inspect`` would fail the same way for no image and no engine."""
    return bool(_docker("image", "ls", "--quiet", name).strip())


def _provide_base(say: Say) -> None:
    """Pull the base image here, not in the build, so that a failure has its own error."""
    base = _named(r"^ARG BASE=(\S+)", "Dockerfile")
    if not _has(base):
        say(f"pulling {base}")
        hint = (
            f"`docker pull {base}` must work; without a registry, import a base image under that name: "
            f"`debootstrap --variant=minbase bookworm DIR`, `tar -C DIR -c . | docker import - {base}`"
        )
        _run(["docker", "pull", base], {}, f"the base image {base} cannot be pulled", hint)


def _fill(context: Path, spark: Spark, java: Path | None, say: Say) -> None:
    """Collect everything that the Dockerfile copies."""
    context.mkdir()
    shutil.copyfile(_recipe("Dockerfile"), context / "Dockerfile")
    groups = _groups()
    wanted = [group for locked in groups.values() for group in locked]
    if java is None:
        java = find_java() if jars.missing(jars.locked(*wanted)) else Path("java")
    provided = jars.provide(java, spark, wanted, say)
    for name, locked in groups.items():
        (context / "jars" / name).mkdir(parents=True)
        for jar in (path for group in locked for path in provided[group]):
            shutil.copy2(jar, context / "jars" / name)
    hadoop_defaults_jar.write_into(context / "jars" / "files")
    _collect_wheels(context, say)


def _collect_wheels(context: Path, say: Say) -> None:
    """Put the wheels of the lock into ``context/wheels``.

    PySpark is a source distribution. Its build tools come from this environment if it has them (a checkout's has);
    otherwise pip fetches them, unless it has a wheel of this PySpark in its cache.
    """
    if reason := mismatch(platform.python_version(), pyspark_version()):
        hint = f"use Python {PYTHON}, because pip collects wheels for its own version; or the local backend"
        raise TestbedError("this Python cannot build the image", detail=reason, hint=hint)
    say("collecting the image's Python packages: up to two minutes if pip's cache has none")
    (tmp := context / "tmp").mkdir()  # not /tmp, which may be small and in memory
    argv = [sys.executable, "-P", "-m", "pip", "wheel", "--no-deps", "--require-hashes"]
    argv += ["--no-build-isolation"] if find_spec("setuptools") and find_spec("wheel") else []
    argv += ["--requirement", str(_recipe("requirements.lock")), "--wheel-dir", str(context / "wheels")]
    hint = f"`{sys.executable} -m pip` must work (`-m ensurepip` installs it) and reach a package index"
    _run(argv, {"TMPDIR": str(tmp)}, "the image's Python packages could not be collected", hint)
    shutil.rmtree(tmp, ignore_errors=True)


def _docker(*arguments: str) -> str:
    """The output of a quick docker command; raises ``TestbedError``."""
    argv = ["docker", *arguments]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        hint = "`docker info` must work for this user; without Docker, use the local backend"
        raise TestbedError("the Docker engine cannot be reached", detail=detail, hint=hint) from error


def _run(argv: list[str], variables: dict[str, str], message: str, hint: str) -> None:
    """Run a long step with its output in the log; raises ``TestbedError``. If interrupted, ends the step too."""
    log = _folder() / "build.log"
    env = {**os.environ, **variables}
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, process_group=0
        )
        try:
            ended = f"ended with {child.wait(_STEP_S)}"
        except subprocess.TimeoutExpired:
            ended = f"did not end in {_STEP_S} s"
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL) if child.poll() is None else ():
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(child.pid, number)  # the group: Compose is a child of the docker command
                    child.wait(_END_S)
    if ended != "ended with 0":
        end = tail(log, 12)
        if os.strerror(errno.ENOSPC).lower() in end.lower():  # the only useful hint on a full disk
            hint = _SPACE_HINT
        raise TestbedError(message, detail=f"{Path(argv[0]).name} {ended}; {log} ends with\n{end}", hint=hint)
