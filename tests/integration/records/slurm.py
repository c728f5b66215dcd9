"""A real Slurm on loopback: munge, MariaDB, slurmdbd, slurmctld and one slurmd, with files in one folder.

Slurm's accounting needs all five. The node has eight GPUs that are empty files: Slurm counts them, nobody uses them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import needs
from bench.bench import free_ports
from bench.processes import _die_with_parent
from waiting import LONGEST

ACCOUNTS = (
    "add cluster bench",
    "add qos scavenger",
    "add qos high",
    "modify qos high set preempt=scavenger priority=100",
    "add account vision",
    "add account language",
    "add user root account=vision qos=normal,high,scavenger",
    "add user root account=language qos=normal,high,scavenger",
)
DATABASE = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StorageLoc=accounting
"""
CLUSTER = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={d}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge/socket
AccountingStorageEnforce=limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100
JobAcctGatherType=jobacct_gather/none
PreemptType=preempt/qos
PreemptMode=REQUEUE
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
NodeName=gpu1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Gres=gpu:a100:8 State=UNKNOWN
PartitionName=a100 Nodes=gpu1 Default=YES OverSubscribe=FORCE:16 MaxTime=60 State=UP
"""


class Slurm:
    """A cluster of one node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "SLURM_CONF": f"{folder}/slurm.conf",
            "PATH": needs.SYSTEM_PATH,
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Bring everything up, in order."""
        folder = self._folder
        for name in ("munge", "database", "state", "spool", "gpus"):
            (folder / name).mkdir(parents=True)
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = ("--key-file=key", "--socket=socket", "--pid-file=pid", "--log-file=log", "--seed-file=seed")
        munge = [f"{option.split('=')[0]}={folder}/munge/{option.split('=')[1]}" for option in files]
        self._run("munged", "--foreground", "--force", *munge)
        sql, dbd, ctld, d = free_ports(4)
        self._start_database(sql)
        values = {
            "folder": folder,
            "sql": sql,
            "dbd": dbd,
            "ctld": ctld,
            "d": d,
            "host": socket.gethostname().split(".")[0],
        }
        (folder / "slurmdbd.conf").write_text(DATABASE.format(**values))
        (folder / "slurmdbd.conf").chmod(0o600)
        (folder / "slurm.conf").write_text(CLUSTER.format(**values))
        for number in range(8):
            (folder / "gpus" / str(number)).touch()
        (folder / "gres.conf").write_text(f"NodeName=gpu1 Name=gpu Type=a100 File={folder}/gpus/[0-7]\n")
        self._run("slurmdbd", "-D")
        self.wait("slurmdbd", lambda: self.answer("sacctmgr", "-n", "list", "cluster") is not None)
        for words in ACCOUNTS:
            assert self.answer("sacctmgr", "-i", *words.split()) is not None, words
        self._run("slurmctld", "-D")
        self._run("slurmd", "-D", "-N", "gpu1")
        self.wait("an idle node", lambda: (self.answer("sinfo", "-h", "-o", "%T") or "").strip() == "idle")

    def _start_database(self, port: int) -> None:
        place, socket_file = self._folder / "database", self._folder / "database.socket"
        install = ["mariadb-install-db", f"--datadir={place}", "--user=root", "--skip-test-db"]
        subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, capture_output=True)
        listens = ("--bind-address=127.0.0.1", f"--port={port}", f"--socket={socket_file}", "--skip-name-resolve")
        self._run("mariadbd", "--no-defaults", f"--datadir={place}", "--user=root", *listens)
        client = ["mariadb", "--no-defaults", f"--socket={socket_file}", "-e"]
        self.wait("MariaDB", lambda: self.answer(*client, "select 1") is not None)
        user = "'slurm'@'127.0.0.1'"
        grant = f"create user {user} identified by ''; grant all on accounting.* to {user}"
        subprocess.run([*client, grant], check=True, capture_output=True)

    def answer(self, *words: str) -> str | None:
        """What a command prints; None if it fails."""
        done = subprocess.run(words, capture_output=True, text=True, env=self._environment, check=False)
        return done.stdout if done.returncode == 0 else None

    def submit(self, *options: str, seconds: int, again: int | None = None) -> str:
        """A job that sleeps, as long as `again` when it was requeued; its number."""
        later = seconds if again is None else again
        sleeps = f"[ $SLURM_RESTART_COUNT ] && exec sleep {later}; exec sleep {seconds}"
        words = ("sbatch", "--parsable", "--output=/dev/null", "--ntasks=1", *options, f"--wrap={sleeps}")
        number = self.answer(*words)
        assert number is not None, options
        return number.strip()

    def wait(self, what: str, there: Callable[[], bool]) -> None:
        """Until it is there."""
        end = time.monotonic() + LONGEST
        while not there():
            if time.monotonic() > end:
                logs = "".join(f"\n{path.name}: {path.read_text()[-400:]}" for path in self._folder.glob("*.log"))
                raise AssertionError(f"{what} did not come within {LONGEST:g} s{logs}")
            time.sleep(0.2)

    def _run(self, *words: str) -> None:
        with (self._folder / f"{words[0]}.out").open("wb") as out:
            self._started.append(
                subprocess.Popen(words, stdout=out, stderr=out, env=self._environment, preexec_fn=_die_with_parent)
            )

    def stop(self) -> None:
        """Stop what was started, last first."""
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """A Slurm that is up; the test is skipped where there is none."""
    needs.require("slurm")
    cluster = Slurm(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


FIELDS: Sequence[str] = (
    *("JobID", "JobName", "User", "Account", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State"),
    *("AllocTRES", "ReqTRES", "NNodes"),
)
