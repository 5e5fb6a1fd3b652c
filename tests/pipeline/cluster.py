"""A Spark cluster and an object store, in processes of this machine.

The cluster is Spark's standalone master with two workers, from PySpark's jars. The
store is moto's S3 server, in a thread.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pyspark
from moto.server import ThreadedMotoServer
from tests.commands import environment
from tests.pipeline.kills import children, kill, until
from tests.pipeline.spark_settings import NO_BUNDLE

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
EXECUTOR_MEMORY = "600m"
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BUCKET = "events"
KEYS = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
"""Moto takes all keys."""
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master with its workers.

    Attributes:
        master: the master's URL.
        workers: processes; their executors are their children.
    """

    master: str
    workers: list[subprocess.Popen[bytes]]

    def kill_an_executor(self) -> None:
        """Kills the executor of the first worker that has one."""
        first, *_ = (pid for worker in self.workers for pid in children(worker.pid))
        os.kill(first, signal.SIGKILL)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Runs a master and workers until the block ends; logs and work go to a folder."""
    with ExitStack() as started:

        def start(name: str, kind: str, *arguments: str, says: str) -> Any:
            log = folder / f"{name}.log"
            daemon = f"org.apache.spark.deploy.{kind}"
            process = spark_process(log, "spark-class", daemon, *arguments)
            started.callback(kill, process)
            until(process, lambda: re.search(says, log.read_text()) is not None)
            found = re.search(says, log.read_text())
            assert found is not None
            return process, found[0]

        _, master = start(
            "master",
            "master.Master",
            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            says=r"(?<=Starting Spark master at )spark://\S+",
        )
        workers = [
            start(
                f"worker{number}",
                "worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0"),
                *("--cores", "1", "--memory", "1g"),
                *("--work-dir", str(folder / f"worker{number}"), master),
                says="Successfully registered with master",
            )[0]
            for number in range(WORKERS)
        ]
        yield Cluster(master, workers)


def spark_process(
    log: Path, program: str, *arguments: str, memory: str = "192m"
) -> subprocess.Popen[bytes]:
    """Starts one of Spark's programs in its own process group, with its executors."""
    settings = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
    }
    with log.open("wb") as file:
        return subprocess.Popen(
            [
                str(SPARK_HOME / "bin" / program),
                *arguments,
            ],
            cwd=log.parent,  # Spark Connect makes a folder there
            env=environment(**settings),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


# -- the store


@dataclass(frozen=True, slots=True)
class Store:
    """An object store with the bucket `BUCKET`.

    Attributes:
        address: its URL.
    """

    address: str

    @property
    def settings(self) -> Mapping[str, str]:
        """Spark's settings to reach it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.address,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEYS["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["aws_secret_access_key"],
            **NO_BUNDLE,
        }

    def client(self) -> Any:
        """A client of it."""
        return boto3.client("s3", endpoint_url=self.address, region_name=REGION, **KEYS)

    def download(self, prefix: str, folder: Path) -> None:
        """Copies all objects below a prefix into a folder."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{prefix}/"
        )
        for page in pages:
            for each in page.get("Contents", ()):
                path = folder / each["Key"].removeprefix(f"{prefix}/")
                if each["Key"].endswith("/"):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                client.download_file(BUCKET, each["Key"], str(path))


@contextmanager
def store() -> Iterator[Store]:
    """Serves the store until the block ends."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = Store(f"http://{host}:{port}")
        made.client().create_bucket(Bucket=BUCKET)
        yield made
    finally:
        server.stop()
