"""A driver that one run has for itself, with the jars and packages that its pipeline needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.seal import file_sha256
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.stack import POWERS, Driver, Stack
from tidemark.stack.install.packages import resolve_packages
from tidemark.stack.install.toolchain import find_java, find_spark


@contextmanager
def own_driver(stack: Stack, name: str, code: PipelineCode) -> Iterator[Driver]:
    """Start a driver and stop it at the end.

    Raises ``TidemarkError`` if the driver does not start, or a package cannot be downloaded.
    """
    jars = [_given(stack, name, jar) for jar in jars_of(code)]
    driver = stack.start_driver(name, {"spark.jars": ",".join(map(str, jars))} if jars else None)
    try:
        yield driver
    finally:
        stack.stop(driver.name)
        shutil.rmtree(stack.work_dir(name) / "jars", ignore_errors=True)


def jars_of(code: PipelineCode) -> list[Path]:
    """The jars of a pipeline, and those of its packages."""
    for jar in code.jars:
        if not jar.is_file():
            raise UsageError(f"there is no file {str(jar)!r}", hint="--jars names jar files")
    if not code.packages:
        return list(code.jars)
    spark = find_spark(code.interpreter)
    return [*code.jars, *resolve_packages(find_java(), spark, code.packages)]


def must_take_jars(stack: Stack, code: PipelineCode) -> None:
    """Raise ``UsageError`` if jars are asked for and the driver is somebody else's."""
    if (code.jars or code.packages) and "processes" not in POWERS[stack.spec.backend]:
        raise UsageError(
            f"{', '.join([*map(str, code.jars), *code.packages])} cannot be added: the stack is {stack.spec.backend}",
            detail="its driver belongs to somebody else",
            hint="have the jars put there, or take a stack of your own: `tidemark up --backend local`",
        )


def jar_digests(code: PipelineCode) -> dict[str, str]:
    """What ran, as the manifest's versions have it: each jar by its name, with its digest."""
    return {f"jar {jar.name}": f"sha256:{file_sha256(jar)}" for jar in jars_of(code)}


def _given(stack: Stack, name: str, jar: Path) -> Path:
    """A copy of a jar where driver and executors see it."""
    folder = stack.work_dir(name) / "jars"
    folder.mkdir(exist_ok=True)
    return Path(shutil.copyfile(jar, folder / jar.name))
