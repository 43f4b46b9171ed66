"""A real Slurm with two nodes on this computer: the same rows, and a job that is killed."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.read.test_fleet import MANY, write_ranks
from timeroof.api.reports import load
from timeroof.core.engines import DaskCluster
from timeroof.read.fleet import Fleet

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
SETTINGS = "nodes=2,time=00:10:00,memory=1GB,interface=lo"
CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CryptoType=crypto/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=2
SlurmdTimeout=20
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=17001 CPUs=1 RealMemory=2000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=17002 CPUs=1 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """munged, slurmctld and two slurmd of our own; skipped where they cannot be had."""
    for needed in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    root = tmp_path_factory.mktemp("slurm")
    # munge refuses a socket below a folder that others may not enter.
    for folder in (root, *root.parents):
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    for name in ("state", "spooln1", "spooln2"):
        (root / name).mkdir()
    (root / "munge.key").write_bytes(os.urandom(128))
    (root / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (root / "slurm.conf").write_text(CONF.format(host=host, user=getpass.getuser(), root=root))
    os.environ["SLURM_CONF"] = str(root / "slurm.conf")
    munged = [
        "munged", "--foreground", "--force", f"--key-file={root}/munge.key",
        f"--socket={root}/munge.sock", f"--pid-file={root}/munged.pid",
        f"--log-file={root}/munged.log", f"--seed-file={root}/munge.seed",
    ]  # fmt: skip
    commands = [
        munged,
        ["slurmctld", "-D", "-i"],
        *(["slurmd", "-D", "-N", n] for n in ("n1", "n2")),
    ]
    started = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            time.sleep(2)
        _wait_for_nodes(2)
        yield
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
        del os.environ["SLURM_CONF"]


def _wait_for_nodes(count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        told = subprocess.run(
            ["sinfo", "-N", "-h", "-o", "%T"], capture_output=True, text=True, check=False
        )
        if told.stdout.split().count("idle") == count:
            return
        time.sleep(1)
    pytest.skip("Slurm's nodes did not come up here")


@pytest.mark.usefixtures("slurm")
def test_nodes_of_slurm_read_what_one_process_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "one"))
    folder = write_ranks(tmp_path / "run", MANY)
    alone = load(folder).rows
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "two"))
    assert load(folder, fleet=Fleet(slurm=SETTINGS)).rows.equals(alone)


@pytest.mark.usefixtures("slurm")
def test_a_job_that_is_killed_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, killed = [], b""
    orders = [["sh", "-c", f"sleep 1.5; echo $SLURM_JOB_ID {number}"] for number in range(16)]
    for answer in DaskCluster(slurm=SETTINGS).map(subprocess.check_output, orders):
        assert answer.value is not None, answer.failure
        job, number = answer.value.split()
        found.append((int(number), job))
        if not killed:
            killed = job
            command = ["scancel", "--signal=KILL", "--full", job.decode()]
            subprocess.run(command, check=True)
    assert sorted(number for number, _ in found) == list(range(16))
    assert len({job for _, job in found}) > 1
