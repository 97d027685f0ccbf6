"""Accounting for a trial cluster: slurmdbd with a MariaDB of its own, under the cluster's folder."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

PACKAGES = ("slurmdbd", "mariadb-server")
PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db")
ACCOUNT = "project"
"""The account that the user who started the cluster belongs to."""

SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def slurm_conf_lines(folder: Path, port: int | None) -> str:
    """What slurm.conf says of accounting, which listens at `port`; None: there is none."""
    if port is None:
        return "AccountingStorageType=accounting_storage/none"
    return (
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
        f"AccountingStoragePort={port}\nAccountingStoragePass={folder}/munge.socket\n"
        "AccountingStorageEnforce=associations,limits,qos"
    )


def configure(folder: Path, port: int) -> None:
    """Write slurmdbd.conf, which slurmdbd refuses if others can read it."""
    path = folder / "slurmdbd.conf"
    path.touch(mode=0o600)
    path.write_text(SLURMDBD_CONF.format(folder=folder, port=port))


def start(
    folder: Path, environment: Mapping[str, str], wait_for: Callable[[Callable[[], bool], float, str], None]
) -> None:
    """Start the database and slurmdbd; both bear the mark in `environment`, by which `down` finds them."""
    socket, data = folder / "run" / "mariadb.socket", folder / "mariadb"
    if not data.is_dir():
        _run(
            environment,
            "mariadb-install-db",
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
        )
    with (folder / "log" / "mariadb.log").open("ab") as log:
        subprocess.Popen(
            [
                "mariadbd",
                "--no-defaults",
                "--user=root",
                f"--datadir={data}",
                f"--socket={socket}",
                "--skip-networking",
                f"--pid-file={folder}/run/mariadbd.pid",
                "--innodb-buffer-pool-size=64M",
            ],
            env=dict(environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    wait_for(lambda: _answers(environment, "mariadb-admin", "--no-defaults", "-S", str(socket), "ping"), 60, "MariaDB")
    _run({**environment, "MYSQL_UNIX_PORT": str(socket)}, "slurmdbd")
    wait_for(lambda: _answers(environment, "sacctmgr", "-n", "list", "cluster"), 60, "slurmdbd to answer")
    for entity in (["cluster", "replications"], ["account", ACCOUNT], ["user", "root", f"Account={ACCOUNT}"]):
        _answers(environment, "sacctmgr", "-i", "add", *entity)  # what there is already is refused, and stays


def _answers(environment: Mapping[str, str], *command: str) -> bool:
    return subprocess.run(command, env=dict(environment), capture_output=True, timeout=60).returncode == 0


def _run(environment: Mapping[str, str], *command: str) -> None:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{command[0]} does not start: {done.stderr.strip().splitlines()[-1:]}")
