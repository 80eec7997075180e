"""A Kafka coordinator drops the marker of a committed transaction while the partition of its records has no leader.

Needs Java, ``pip install confluent-kafka`` and the jars of a Kafka: ``python repro.py 'kafka_2.13-4.3.1/libs/*'``. Two
brokers are started in a temporary folder: the first is the controller, too, and has the transaction log; the second
has the only partition of a topic. A transaction writes a record there, the second broker is killed (SIGKILL), the
transaction is committed, which succeeds, and the broker is started again. Now the marker must come: until then no
reader with ``read_committed`` sees the record, or any after it. Exit code 0: it came; 1: it did not.

With ``--lone`` there is one broker, which is killed as soon as the client knows that its transaction is committed, up
to ten times: it is red only where the kill comes before the last marker of 200 partitions.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

TOPIC = "rows"
LONE_PARTITIONS, LONE_ROUNDS = 200, 10
STARTED_S, FENCED_S, MARKER_S = 90.0, 60.0, 60.0
PAUSE = threading.Event()
"""Never set: waiting for it is a pause."""
LOG = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""
LOG_BEFORE_4 = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""


def free_port():
    """A port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(holds, seconds, what):
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        PAUSE.wait(0.25)


class Broker:
    """A broker in a folder of its own; the first is the controller, too."""

    def __init__(self, class_path, folder, node, controller):
        self.node, self.folder, self.process = node, os.path.join(folder, str(node)), None
        self.address = f"127.0.0.1:{free_port()}"
        os.mkdir(self.folder)
        own = f",CONTROLLER://127.0.0.1:{controller}" if node == 1 else ""
        settings = {
            "process.roles": "broker,controller" if node == 1 else "broker",
            "node.id": node,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address}{own}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": os.path.join(self.folder, "data"),
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
        }
        file = self.write(
            "server.properties", "".join(f"{name}={value}\n" for name, value in settings.items())
        )
        options = [f"-Dlog4j2.configurationFile={self.write('log4j2.properties', LOG)}"]
        options += [f"-Dlog4j.configuration=file:{self.write('log4j.properties', LOG_BEFORE_4)}"]
        java = ["java", "-Xmx512m", *options, "-cp", class_path]
        self.argv = [*java, "kafka.Kafka", file]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", file]
        subprocess.run(tool, check=True, capture_output=True)

    def write(self, name, text):
        """A file of its folder; returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start(self):
        """Start it, and wait until it answers and is one of the cluster's brokers."""
        with open(os.path.join(self.folder, "broker.log"), "a") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log)
        wait_until(lambda: self.node in brokers(self), STARTED_S, f"broker {self.node} to answer")

    def admin(self):
        """A client that is silent about a broker that is down."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 2})

    def kill(self):
        """As a crash, or a machine that is switched off, would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def brokers(broker):
    """The ids of the brokers that one knows; none if it does not answer."""
    try:
        return set(broker.admin().list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


def create(broker, **options):
    """Create the topic."""
    admin = broker.admin()
    admin.create_topics([NewTopic(TOPIC, **options)])[TOPIC].result(60)


def transaction(broker, name, partitions):
    """A producer with a transaction that has a record in each partition."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "log_level": 2})
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(TOPIC, f"row of {name}", partition=partition)
    producer.flush(60)
    return producer


def stuck(broker, partitions):
    """The partitions whose last stable offset is below the high watermark, with both."""
    admin, asked, found = broker.admin(), {}, {}
    for partition in range(partitions):
        asked[TopicPartition(TOPIC, partition)] = OffsetSpec.latest()
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        for where, future in admin.list_offsets(asked, isolation_level=level, request_timeout=30).items():
            found.setdefault(where.partition, []).append(future.result().offset)
    return {partition: ends for partition, ends in found.items() if ends[0] < ends[1]}


def await_markers(broker, partitions):
    """Wait for the markers of all partitions; returns those without one when the time is over."""
    deadline = time.monotonic() + MARKER_S
    while (found := stuck(broker, partitions)) and time.monotonic() < deadline:
        PAUSE.wait(0.5)
    return found


def visible(broker, level, partition):
    """The values that a reader of a partition sees."""
    conf = {"bootstrap.servers": broker.address, "group.id": level, "isolation.level": level}
    consumer = Consumer({**conf, "enable.partition.eof": True, "log_level": 2})
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    values = []
    while (record := consumer.poll(30)) is not None and not record.error():
        values.append(record.value().decode())
    consumer.close()
    return values


def with_two(first, second):
    """Kill the second broker before the commit; returns the names of what was committed, and what is stuck."""
    first.start()
    # The transaction log is made now, on the only broker that there is.
    transaction_log = Producer(
        {"bootstrap.servers": first.address, "transactional.id": "first", "log_level": 2}
    )
    transaction_log.init_transactions(60)
    second.start()
    create(first, num_partitions=1, replica_assignment=[[2]])
    producer = transaction(first, "transaction", 1)
    second.kill()
    producer.commit_transaction(60)
    print("committed; the broker of its record is down")
    wait_until(lambda: brokers(first) == {1}, FENCED_S, "the second broker to be fenced")
    PAUSE.wait(5)
    second.start()
    print("the broker is back")
    return ["transaction"], await_markers(first, 1)


def alone(broker):
    """Kill the only broker right after each commit, until a marker is lost."""
    broker.start()
    create(broker, num_partitions=LONE_PARTITIONS, replication_factor=1)
    names = []
    for number in range(1, LONE_ROUNDS + 1):
        names.append(f"transaction {number}")
        producer = transaction(broker, names[-1], LONE_PARTITIONS)
        producer.commit_transaction(60)
        broker.kill()
        broker.start()
        found = await_markers(broker, LONE_PARTITIONS)
        print(f"round {number}: {len(found)} of {LONE_PARTITIONS} partitions have no marker", flush=True)
        if found:
            return names, found
    return names, {}


def kafka_of(class_path):
    """The version of Kafka, by the names of its jars."""
    names = [name for one in class_path.split(":") for name in (glob.glob(one) or [one])]
    found = (re.search(r"kafka-clients-(.+)\.jar$", name) for name in names)
    return next((one[1] for one in found if one), "of an unknown version")


def said_of(running):
    """What brokers logged about markers that they skip."""
    lines = []
    for broker in running:
        with open(os.path.join(broker.folder, "broker.log")) as log:
            lines += [line.strip() for line in log if "find leader endpoint" in line]
    return lines


def main():
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("class_path", help="the jars of Kafka, as Java takes them: 'kafka_2.13-4.3.1/libs/*'")
    parser.add_argument("--lone", action="store_true", help="one broker, killed after its commit")
    parser.add_argument("--logs", help="keep the brokers' folders here")
    args = parser.parse_args()
    print(f"confluent-kafka {confluent_kafka.__version__}, Kafka {kafka_of(args.class_path)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        controller = free_port()
        running = [
            Broker(args.class_path, folder, node, controller) for node in ((1,) if args.lone else (1, 2))
        ]
        try:
            names, found = alone(*running) if args.lone else with_two(*running)
            partition = min(found, default=0)
            if found:
                print("last stable offset {}, high watermark {}".format(*found[partition]))
            print("expected, by what was committed:", [f"row of {name}" for name in names])
            print("got, read_committed:            ", visible(running[0], "read_committed", partition))
            print("got, read_uncommitted:          ", visible(running[0], "read_uncommitted", partition))
        finally:
            for broker in running:
                if broker.process is not None and broker.process.poll() is None:
                    broker.kill()
        for line in said_of(running)[:3]:
            print("logged:", line[:300])
        if args.logs:
            shutil.copytree(folder, args.logs)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
