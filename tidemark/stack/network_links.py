"""The links from Spark to the brokers through the network proxy (Toxiproxy): disturbed, healed, and counted.

A link has two streams. In each a counter is first, for what arrives, and another is last, for what is passed on; what
disturbs it is in between, so the last is taken out and put in again behind it. A record of the disturbance and its
owner is written before, as for what is suspended (:mod:`tidemark.stack.suspension`). Several processes may disturb one
link at the same time: all of it is in effect, and each heals its own.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.errors import DaemonDied, TestbedError
from tidemark.processes import ProcessId
from tidemark.stack.api import PROXY, REQUESTS, RESPONSES, LinkTraffic, StreamTraffic, Toxic
from tidemark.stack.components.ports import ask_here, listens
from tidemark.stack.registry import ComponentRecord, StateFolder, Stopped, Target

ANSWER_S = 10.0
"""Calibration: it answers within 2 ms; later only if a client that is stopped has left a connection's buffers full."""
STREAMS = (REQUESTS, RESPONSES)
_FOUND_NONE = 404
_PASSED, _DISTURBED = "passed", "disturbed"


def suspension_name(broker: str) -> str:
    """The name of the record of a link that is packets."""
    return f"link-{broker}"


def disturbance_name(link: str) -> str:
    """The name of the record of what this process does to a link of the proxy, and what its toxics are called by."""
    return f"{suspension_name(link)}-by-{ProcessId.own().pid}"


def is_there(state: StateFolder) -> bool:
    """Whether there is a network proxy, and its process lives; one in a container has to listen."""
    component = state.component(PROXY)
    if component is None:
        return False
    return listens(component.port) if component.process is None else component.process.alive


def disturb(state: StateFolder, broker: str, toxics: Sequence[Toxic]) -> None:
    """Put this process's toxics into a broker's link; an error leaves it without them."""
    own = disturbance_name(broker)
    state.add("stopped", Stopped(Target(link=broker), ProcessId.own()), own)
    try:
        with state.component_lock(f"counters-{broker}"):
            for stream in STREAMS:
                _remove(state, broker, f"{_PASSED}-{stream}")
            for number, toxic in enumerate(toxics):
                _add(state, broker, f"{_DISTURBED}-{own}-{number}", toxic)
            for stream in STREAMS:
                counter = {"counter": f"{broker}/{stream}/{_PASSED}"}
                _add(state, broker, f"{_PASSED}-{stream}", Toxic("count", stream, counter))
    except BaseException:
        heal(state, broker, own)
        state.discard("stopped", own)
        raise


def heal(state: StateFolder, broker: str, disturbance: str) -> None:
    """Take the toxics of one process out of a broker's link; nothing to do if the proxy is gone."""
    if not is_there(state):
        return
    for name in _disturbances(state, broker, disturbance):
        _remove(state, broker, name)


def is_disturbed(state: StateFolder, broker: str) -> bool:
    """Whether there are toxics of this process in a broker's link."""
    return bool(_disturbances(state, broker, disturbance_name(broker)))


def _disturbances(state: StateFolder, broker: str, disturbance: str) -> list[str]:
    """The names of the toxics in a broker's link that are of one process."""
    names = [str(toxic["name"]) for toxic in _ask(state, "GET", f"proxies/{broker}/toxics")]
    return [name for name in names if name.startswith(f"{_DISTURBED}-{disturbance}-")]


def traffic(state: StateFolder, broker: str) -> LinkTraffic:
    """Both streams of a broker's link, at one moment."""
    answer = _ask(state, "GET", "traffic")
    counts: Mapping[str, Mapping[str, float]] = answer["counts"]

    def counted(stream: str) -> StreamTraffic:
        received = counts.get(f"{broker}/{stream}/received", {})
        passed = counts.get(f"{broker}/{stream}/{_PASSED}", {})
        return StreamTraffic(
            int(received.get("bytes", 0)), float(received.get("byte_seconds", 0.0)),
            int(passed.get("bytes", 0)), float(passed.get("byte_seconds", 0.0)),
        )  # fmt: skip

    return LinkTraffic(float(answer["seconds"]), {stream: counted(stream) for stream in STREAMS})


def _add(state: StateFolder, broker: str, name: str, toxic: Toxic) -> None:
    content = {"name": name, "type": toxic.kind, "stream": toxic.stream, "attributes": toxic.attributes}
    _ask(state, "POST", f"proxies/{broker}/toxics", content)


def _remove(state: StateFolder, broker: str, name: str) -> None:
    _ask(state, "DELETE", f"proxies/{broker}/toxics/{name}")


def _ask(state: StateFolder, method: str, path: str, content: Mapping[str, object] | None = None) -> Any:
    """The proxy's answer, ``None`` for none; what is not there to be deleted is no error."""
    component = state.component(PROXY)
    if component is None:
        raise DaemonDied("there is no network proxy", hint="run it again: a run that needs one starts it")
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{component.address}/{path}", data=body, method=method)
    try:
        text = ask_here(request, ANSWER_S)
        return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        if method == "DELETE" and error.code == _FOUND_NONE:
            return None
        raise _refused(component, method, path, error.read().decode(errors="replace")) from error
    except (OSError, ValueError) as error:
        raise _refused(component, method, path, str(error)) from error


def _refused(component: ComponentRecord, method: str, path: str, why: str) -> TestbedError:
    return TestbedError(
        f"the network proxy at {component.address} did not do {method} {path}",
        detail=why,
        hint="logs/proxy.log in the stack's folder has its log; `tidemark down` ends the stack",
    )
