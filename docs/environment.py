"""Every environment variable with the project's name in it: who sets it, and what it means."""

from __future__ import annotations

from typing import NamedTuple

USER = "you"
STACK = "tidemark, for Compose"
ITSELF = "tidemark"


class Variable(NamedTuple):
    """``set_by`` is ``USER`` where a person may set it; the others are shown so that they are recognised."""

    set_by: str
    meaning: str


VARIABLES = {
    "TIDEMARK_ADMIN_PORT_1": Variable(STACK, "where clients log in: tidemark's own port of the first broker"),
    "TIDEMARK_ADMIN_PORT_2": Variable(
        STACK, "where clients log in: tidemark's own port of the second broker"
    ),
    "TIDEMARK_ADMIN_PORT_3": Variable(STACK, "where clients log in: tidemark's own port of the third broker"),
    "TIDEMARK_BACKEND": Variable(
        USER, "the backend: `local`, `compose` or `external`, where no option says it"
    ),
    "TIDEMARK_IVY_SETTINGS": Variable(
        USER, "a file of Ivy settings: where jars are fetched from, else Maven Central"
    ),
    "TIDEMARK_KAFKA_CONF": Variable(
        USER,
        "a file with the login of Kafka's clients, where no `--kafka-conf` names one; for a job (`--app`) tidemark sets"
        " it to the file that Spark sees",
    ),
    "TIDEMARK_PYTEST": Variable(
        USER, "`here`: pytest in a checkout stays in its own interpreter, and does not hand over to `.venv`"
    ),
    "TIDEMARK_ENGINE_RESTART": Variable(
        USER, "a command that restarts the container engine; tests that restart it are skipped without one"
    ),
    "TIDEMARK_CHAOS_TESTS": Variable("`make chaos`", "marks the processes that its runs leave behind"),
    "TIDEMARK_REGISTRY": Variable(
        ITSELF,
        "the URL of the run's schema registry, for `decode` and `encode`, pipelines, jobs; else yours",
    ),
    "TIDEMARK_SINK_STEPS": Variable(
        ITSELF, "where tasks of the exactly-once sink look whether a fault wants them to wait"
    ),
    "TIDEMARK_STACK": Variable(ITSELF, "the token of the stack that a process belongs to"),
    "TIDEMARK_CLASSES": Variable(STACK, "the folder of class archives"),
    "TIDEMARK_DRIVER_PORT": Variable(STACK, "the published port of the driver"),
    "TIDEMARK_PROXY_PORT": Variable(STACK, "the published port of the network proxy"),
    "TIDEMARK_HOME": Variable(STACK, "the project folder that a stack belongs to"),
    "TIDEMARK_IMAGE": Variable(STACK, "the image that all components run"),
    "TIDEMARK_IMAGE_CONTEXT": Variable(STACK, "the build context of the image"),
    "TIDEMARK_IMAGE_TAG": Variable(STACK, "the tag of the image, made of its content"),
    "TIDEMARK_KAFKA_PORT": Variable(STACK, "the published port of the first broker"),
    "TIDEMARK_KAFKA_PORT_2": Variable(STACK, "the published port of the second broker"),
    "TIDEMARK_KAFKA_PORT_3": Variable(STACK, "the published port of the third broker"),
    "TIDEMARK_MTU": Variable(STACK, "the largest packet of the stack's network, in bytes"),
    "TIDEMARK_PROJECT": Variable(STACK, "the name of the Compose project, and the prefix of its containers"),
    "TIDEMARK_STATE": Variable(STACK, "the folder of the stack, the same path inside and outside"),
    "TIDEMARK_USER": Variable(STACK, "user and group that containers run as"),
    "XDG_CACHE_HOME": Variable(USER, "where the cache goes (jars, class archives); else `~/.cache`"),
    "JAVA_HOME": Variable(USER, "the Java that is used; else `java` on the `PATH`"),
    "DOCKER_HOST": Variable(
        USER, "the container engine, as for Docker's own client; so are `DOCKER_CONTEXT` and `DOCKER_CONFIG`"
    ),
    "PIP_INDEX_URL": Variable(USER, "the package registry, as for pip itself"),
}
