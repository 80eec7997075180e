"""Which faults a run can have: refused before anything is started are those that would never be injected."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.errors import TidemarkError, UsageError
from tidemark.faults.network import toxics_of
from tidemark.faults.schedule import FaultSpec, write_schedule
from tidemark.formats.faults import (
    IN_ROLE,
    LINK_FAULTS,
    SINK_STEPS,
    CommitPoint,
    FaultAction,
    FaultComponent,
)
from tidemark.runner.run_options import OWN_SINK, SINKS, RunOptions
from tidemark.sparkfiles.checkpoint import CHANGELOG, STATE_FORMAT, STATE_PROVIDER
from tidemark.stack import POWERS, PROXY_TOXICS, StackSpec
from tidemark.stack.install.network_proxy_program import can_be_built, must_be_buildable
from tidemark.stack.local import packet_links

MAINTENANCE_INTERVAL = "spark.sql.streaming.stateStore.maintenanceInterval"
WITH_FOUR_STORES = ("1", "2")
"""The state formats in which each side of a join has two stores in a partition; later ones have one for all."""
SNAPSHOTS_OFTEN = (f"{MAINTENANCE_INTERVAL}=10ms", "spark.sql.streaming.stateStore.minDeltasForSnapshot=1")
"""Settings with which Spark writes a snapshot of a state store in nearly each batch, as soon as it is committed."""


def must_be_injectable(options: RunOptions, spec: StackSpec) -> None:
    """Raise ``UsageError`` for a fault that the stack, the sink or the settings of the run leave no chance."""
    specs = options.fault_specs
    if specs and "processes" not in POWERS[spec.backend]:
        raise UsageError(
            f"{write_schedule(specs)} cannot be done: the stack is {spec.backend}",
            detail="its processes belong to somebody else",
            hint="leave out --kill-executors, --kill-drivers and --faults, or take a stack of your own:"
            " `tidemark up --backend local`",
        )
    parts = [part for one in specs for part in one.parts]
    of_network = [part for part in parts if part.is_of_network]
    if spec.backend == "local":
        _must_be_possible_on_processes(of_network)
    elif needs_proxy(specs, spec.backend):
        must_be_buildable()
    for part in parts:
        _must_have_registry(part, options)
        _must_have_brokers(part, options, spec)
        _must_be_shown_by_the_sink(part, options)
        _must_make_snapshots(part, options)
        _must_have_several_stores(part, options)


def _must_be_possible_on_processes(of_network: Sequence[FaultSpec]) -> None:
    """Raise ``UsageError`` if this machine lacks what faults of the network need."""
    for part in of_network:
        if part.component in (FaultComponent.BROKER, FaultComponent.REGISTRY):
            must_be_buildable()
            if part.action is FaultAction.LOSS:
                packet_links.must_be_possible("packets between Spark and Kafka")
        else:
            throttles = part.action is FaultAction.THROTTLE
            what = "the network between driver and executors"
            packet_links.must_be_possible(what, of_executors=True, throttles=throttles)


def possible_link_faults(backend: str) -> frozenset[tuple[FaultComponent, FaultAction]]:
    """What can be done to which links on such a stack on this machine, of those that every query has."""
    if "packets" not in POWERS[backend]:
        return frozenset()
    return frozenset(
        (component, action)
        for component, action in LINK_FAULTS
        if component is not FaultComponent.REGISTRY
        and (
            _is_possible_on_processes(component, action)
            if backend == "local"
            else can_be_built() or not needs_proxy([FaultSpec(component, action)], backend)
        )
    )


def needs_proxy(specs: Sequence[FaultSpec], backend: str) -> bool:
    """Whether Spark has to reach Kafka through the network proxy, which on a local stack tells the packets, too."""
    parts = [part for spec in specs for part in spec.parts if part.disturbs(FaultComponent.BROKER)]
    kinds = {toxic.kind for part in parts for toxic in toxics_of(part.action, part.amount)}
    return bool(kinds & PROXY_TOXICS[backend]) or (backend == "local" and bool(kinds))


def _is_possible_on_processes(component: FaultComponent, action: FaultAction) -> bool:
    try:
        _must_be_possible_on_processes([FaultSpec(component, action)])
    except TidemarkError:
        return False
    return True


def _must_have_registry(spec: FaultSpec, options: RunOptions) -> None:
    """Refuse a schema registry of a run that has none."""
    if spec.component is FaultComponent.REGISTRY and not options.registry:
        raise UsageError(
            f"{spec} cannot be injected: the run has no schema registry",
            detail="a registry that the run does not start is not reached through the network proxy",
            hint="`tidemark run --registry`; the query has it from {registry}, io.registry or TIDEMARK_REGISTRY",
        )


def _must_have_brokers(spec: FaultSpec, options: RunOptions, stack: StackSpec) -> None:
    """Refuse a broker in a role that no other could take over, and one in a role that the sink does not need."""
    if spec.component in IN_ROLE and stack.brokers == 1:
        raise UsageError(
            f"{spec} cannot be injected: the stack has one broker",
            detail=f"no other could become {spec.component}",
            hint="`tidemark up --brokers 3`; or take the broker, whatever it does: broker@planned",
        )
    if spec.component is FaultComponent.COORDINATOR and options.sink != SINKS[0]:
        raise UsageError(
            f"{spec} cannot be injected: the sink of this run is {options.sink}",
            detail="only the exactly-once sink has a ledger, which a broker coordinates",
            hint=f"add --sink {SINKS[0]}, or take the leader of a partition of the output: leader@planned",
        )


def _must_make_snapshots(spec: FaultSpec, options: RunOptions) -> None:
    """Refuse the point ``snapshot`` of a query that writes none for a minute.

    On RocksDB without changelogs a task writes one with each commit. Else a thread of each executor's does, as often as
    the settings of the first query say that it runs.
    """
    settings = _settings(options)
    by_tasks = (
        "RocksDB" in settings.get(STATE_PROVIDER, "") and settings.get(CHANGELOG, "false").lower() != "true"
    )
    if spec.point is not CommitPoint.SNAPSHOT or by_tasks:
        return
    if MAINTENANCE_INTERVAL not in settings:
        raise UsageError(
            f"{spec} cannot be injected: no snapshot is written within the run",
            detail=f"Spark looks every minute whether a store needs one: {MAINTENANCE_INTERVAL}",
            hint=" ".join(f"--conf {setting}" for setting in SNAPSHOTS_OFTEN),
        )
    if options.driver:
        raise UsageError(
            f"{spec} cannot be injected: the driver {options.driver!r} runs already",
            detail=f"its executors keep the {MAINTENANCE_INTERVAL} of its first query",
            hint="leave out `driver`: the run starts a driver of its own",
        )


def _must_have_several_stores(spec: FaultSpec, options: RunOptions) -> None:
    """Refuse the point ``state`` of a state format in which a partition has one store: it is committed, or is not."""
    version = _settings(options).get(STATE_FORMAT, WITH_FOUR_STORES[-1])
    if spec.point is CommitPoint.STATE and version not in WITH_FOUR_STORES:
        raise UsageError(
            f"{spec} cannot be injected: the state has format {version}",
            detail="a partition has one state store there: no state is committed by halves",
            hint=f"leave out --conf {STATE_FORMAT}={version}, or choose the point half-written:"
            f" {spec.component}:{spec.action}@half-written",
        )


def _settings(options: RunOptions) -> dict[str, str]:
    return dict(text.partition("=")[::2] for text in options.conf)


def _must_be_shown_by_the_sink(spec: FaultSpec, options: RunOptions) -> None:
    """Refuse commit points that the sink of the run does not show."""
    if spec.point in SINK_STEPS and options.sink != SINKS[0]:
        raise UsageError(
            f"{spec} cannot be injected: the sink of this run is {options.sink}",
            detail=f"{spec.point} is a step of the exactly-once sink, and no other sink has it",
            hint=f"add --sink {SINKS[0]}, or choose the point half-written:"
            f" {spec.component}:{spec.action}@half-written",
        )
    if options.sink == OWN_SINK and spec.point in (CommitPoint.WRITTEN, CommitPoint.HALF_WRITTEN):
        raise UsageError(
            f"{spec} cannot be injected: the pipeline writes with a sink of its own",
            detail=f"nothing shows whether a batch is {spec.point} there",
            hint=f"choose the point planned or no-data: {spec.component}:{spec.action}@planned",
        )
