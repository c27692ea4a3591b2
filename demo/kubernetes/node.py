"""A Kubernetes of one node, in namespaces of its own: nothing of the machine's network, mounts or settings is touched.

    with Node(folder) as node:
        node.kubectl("get", "nodes")

Etcd, API server, controller manager, scheduler, kubelet and kube-proxy are one program (``scripts/setup-kubernetes.sh``
builds it), containerd and runc are Debian's. The end of one process ends them all. Pods have addresses in 10.88.0.0/16,
services in 10.96.0.0/16; processes that :meth:`Node.enter` starts are on the node, at :data:`ADDRESS`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import ipaddress
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typing_extensions import Self

from demo.certificates import certificate, pem
from demo.java_servers import NoServer
from demo.kubernetes.images import write_image

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts/setup-kubernetes.sh"

ADDRESS = "10.99.0.1"
"""The node's address, which pods and :meth:`Node.enter`\\ ed processes reach."""

PAUSE = "registry.k8s.io/pause:3.6"

START_SECONDS = 180.0
STOP_SECONDS = 10.0

CONTROL_GROUP = "airflow-samza-node-"
"""The beginning of the names of nodes' control groups."""

_GROUPS = Path("/sys/fs/cgroup")
_VERSION_1 = (
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "systemd",
)

_NETWORK = 0x40000000  # CLONE_NEWNET
_FORWARD = (sys.executable, str(Path(__file__).with_name("forward.py")))

_USERS = {  # by the name of their file: user and group
    "admin": ("admin", "system:masters"),
    "kubelet": ("system:node:node", "system:nodes"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}


def what_is_missing() -> str:
    """Return why no node can be started here without building or installing something first; "" where one can."""
    if os.geteuid() != 0:
        return "that takes the user root"
    done = subprocess.run([str(SETUP), "--look"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def place_of_parts() -> Path:
    """Return the folder in which the parts are, which this user keeps for all nodes; builds what is missing."""
    done = subprocess.run([str(SETUP)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise NoServer("The parts of Kubernetes are not there; see above.")
    return Path(done.stdout.strip().splitlines()[-1])


class Node:
    """A node in a folder; what it keeps there is of no use to another."""

    name = "Kubernetes"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._control_group = f"{CONTROL_GROUP}{secrets.token_hex(4)}"
        self._place = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._first: psutil.Process | None = None
        self._forwarders: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The file by which clients on this machine are the administrator."""
        return self.folder / "kubeconfig"

    @property
    def kubeconfig_inside(self) -> Path:
        """The same for clients on the node."""
        return self.folder / "admin.conf"

    def start(self) -> None:
        """Start it, and return when pods can be made."""
        self._place = place_of_parts()
        for name in ("log", "keys", "cni", "images", "volumes"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        pause = self.folder / "pause.tar"
        subprocess.run(["tar", "-C", str(self._place), "-cf", str(pause), "pause"], check=True)
        write_image(self.folder / "images" / "pause.tar", PAUSE, {"Entrypoint": ["/pause"]}, [pause])
        self._make_keys()
        self._write_settings()
        _make_control_groups(self._control_group)
        self._launch()
        self.kubeconfig.write_text(self._config("admin", f"https://127.0.0.1:{self.forward(6443)}"))
        self._await("its API server does not answer", lambda: self._asks("get", "--raw", "/readyz"))
        self._await("its node is not ready", lambda: " Ready " in self.kubectl("get", "nodes", check=False))
        self._await("its node takes no pods", lambda: "taints" not in self.get("nodes")["items"][0]["spec"])
        self._await("it has no service account", lambda: self._asks("get", "serviceaccount", "default"))

    def wait(self) -> None:
        """Return when it has ended."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """End all of it: processes, mounts, interfaces and rules end with its namespaces."""
        for forwarder in self._forwarders:
            forwarder.kill()
            forwarder.wait()
        self._forwarders.clear()
        for process in (self._first, self._process):
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if process is not None:
                    process.kill()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
        self._first = self._process = None
        _remove_control_groups(self._control_group)

    def facts(self) -> str:
        """Return the lines that say how it is reached."""
        return "\n".join(
            (
                f"export KUBECONFIG={self.kubeconfig} PATH={self._place}:$PATH",
                f"Pods reach the node at {ADDRESS}. A command on the node, in its network:",
                f"  nsenter --net={self.network} -- COMMAND",
                f"Its logs are in {self.folder / 'log'}.",
            )
        )

    @property
    def pid(self) -> int:
        """Return the process whose end ends the node."""
        assert self._process is not None
        return self._process.pid

    @property
    def network(self) -> str:
        """The file of its network's namespace."""
        assert self._first is not None
        return f"/proc/{self._first.pid}/ns/net"

    def kubectl(self, *arguments: str, given: str | None = None, check: bool = True) -> str:
        """Return what kubectl prints; ``given`` is its standard input."""
        done = subprocess.run(
            [*self._kubectl, *arguments], input=given, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *what: str) -> dict[str, Any]:
        """Return an object, or a list of them, as the API server has it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found

    def enter(self, *command: str) -> list[str]:
        """Return a command that runs on the node, with this machine's files."""
        return ["nsenter", f"--net={self.network}", "--", *command]

    def forward(self, port: int, host: str = ADDRESS) -> int:
        """Return a port of this machine's 127.0.0.1 that leads to one on the node."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._pass_on(listener, f"{host}-{port}", self.enter(*_FORWARD, str(listener.fileno()), host, str(port)))
        number: int = listener.getsockname()[1]
        listener.close()
        return number

    def expose(self, port: int) -> None:
        """Have the same port at :data:`ADDRESS`, where pods reach it, lead to one of this machine's 127.0.0.1."""
        listener = self._listener(port)
        self._pass_on(listener, f"back-{port}", [*_FORWARD, str(listener.fileno()), "127.0.0.1", str(port)])
        listener.close()

    def _listener(self, port: int) -> socket.socket:
        """Return a socket that listens on the node; a thread alone can be in another network than its process."""
        made: list[socket.socket] = []

        def listen() -> None:
            with Path(self.network).open("rb") as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _NETWORK) != 0:
                    raise OSError(ctypes.get_errno(), f"the network of {self.name} cannot be entered")
            made.append(socket.create_server((ADDRESS, port), backlog=64))

        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        if not made:
            raise NoServer(f"Nothing can listen on port {port} of the node.")
        return made[0]

    def _pass_on(self, listener: socket.socket, name: str, command: list[str]) -> None:
        with (self.folder / "log" / f"forward-{name}.log").open("wb") as log:
            self._forwarders.append(
                subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=log, stderr=log, start_new_session=True)
            )

    @contextlib.contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Reject every connection to the API server, also those that are open, inside the ``with``."""
        rule = ["INPUT", "-p", "tcp", "--dport", "6443", "-j", "REJECT", "--reject-with", "tcp-reset"]
        subprocess.run(self.enter("iptables", "-I", *rule), check=True)
        try:
            yield
        finally:
            subprocess.run(self.enter("iptables", "-D", *rule), check=True)

    def requests(self) -> list[tuple[str, str, str, int]]:
        """Return what pods' service accounts have asked of the API server: account, verb, resource, answer's code."""
        found = []
        with (self.folder / "log" / "audit.log").open(encoding="utf-8") as log:
            for line in log:
                entry = json.loads(line)
                account, asked = entry["user"]["username"].rpartition(":")[2], entry.get("objectRef", {})
                resource = "/".join(asked[part] for part in ("resource", "subresource") if asked.get(part))
                found.append((account, entry["verb"], resource, entry.get("responseStatus", {}).get("code", 0)))
        return found

    def processor_seconds(self) -> float:
        """Return the processor time of all its pods so far, those that have ended included."""
        of_version_1 = _GROUPS / "cpuacct" / self._control_group / "cpuacct.usage"
        if of_version_1.exists():
            return int(of_version_1.read_text()) / 1e9
        stat = (_GROUPS / self._control_group / "cpu.stat").read_text()
        return int(stat.split()[stat.split().index("usage_usec") + 1]) / 1e6

    def load(self, image: Path) -> None:
        """Bring an image's archive to the node."""
        socket_path = str(self.folder / "containerd.sock")
        command = ["ctr", "--address", socket_path, "--namespace", "k8s.io", "images", "import", str(image)]
        assert self._first is not None
        entered = ["nsenter", f"--mount=/proc/{self._first.pid}/ns/mnt", f"--pid=/proc/{self._first.pid}/ns/pid", "--"]
        subprocess.run([*entered, *command], check=True, stdout=subprocess.DEVNULL)

    # -- its start ---------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        environment = {
            **os.environ,
            "FOLDER": str(self.folder),
            "PROGRAM": str(self._place / "onenode"),
            "KUBECTL": self._kubectl[0],
            "PYTHON": sys.executable,
            "DNS": str(Path(__file__).with_name("dns.py")),
            "ADDRESS": ADDRESS,
        }
        script = str(Path(__file__).with_name("node.sh"))
        # It ends with this process, however that ends, and its children with it.
        namespaces = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork"]
        namespaces += ["--kill-child", "--mount-proc"]
        with (self.folder / "log" / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*namespaces, "bash", script],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = psutil.Process(self._process.pid)

        def is_there() -> bool:
            self._first = next(iter(process.children()), None)
            return self._first is not None and os.path.exists(self.network)

        self._await("it has no first process", is_there)

    def _await(self, lacking: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self._process is not None and self._process.poll() is not None:
                raise NoServer(f"The node has ended: see {self.folder / 'log'}.")
            with contextlib.suppress(psutil.Error, OSError, subprocess.TimeoutExpired):
                if holds():
                    return
            if time.monotonic() > deadline:
                raise NoServer(f"The node does not start, {lacking}: see {self.folder / 'log'}.")
            time.sleep(0.2)

    @property
    def _kubectl(self) -> list[str]:
        return [str(self._place / "kubectl"), f"--kubeconfig={self.kubeconfig}"]

    def _asks(self, *arguments: str) -> bool:
        done = subprocess.run([*self._kubectl, *arguments], capture_output=True, timeout=20, check=False)
        return done.returncode == 0

    # -- its files ---------------------------------------------------------------------------------------------------

    def _make_keys(self) -> None:
        keys = self.folder / "keys"
        authority = ec.generate_private_key(ec.SECP256R1())
        made = certificate("authority", authority, authority, is_authority=True)
        (keys / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        api = ec.generate_private_key(ec.SECP256R1())
        names = ["localhost", *(f"kubernetes.default{more}" for more in ("", ".svc", ".svc.cluster.local"))]
        addresses = ["127.0.0.1", ADDRESS, "10.96.0.1"]
        alternatives = [
            *(x509.DNSName(name) for name in names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
        signed = certificate("kube-apiserver", api, authority, alternatives)
        (keys / "api.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        (keys / "api.key").write_bytes(pem(api))
        accounts = ec.generate_private_key(ec.SECP256R1())
        (keys / "accounts.key").write_bytes(pem(accounts))
        (keys / "accounts.pub").write_bytes(
            accounts.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        self._tokens = {name: secrets.token_hex(16) for name in _USERS}
        (keys / "admin.token").write_text(self._tokens["admin"])
        (keys / "tokens.csv").write_text(
            "".join(
                f"{self._tokens[name]},{user},{name}{f',{group}' if group else ''}\n"
                for name, (user, group) in _USERS.items()
            )
        )
        for name in _USERS:
            (self.folder / f"{name}.conf").write_text(self._config(name, f"https://{ADDRESS}:6443"))

    def _config(self, name: str, server: str) -> str:
        authority = base64.b64encode((self.folder / "keys" / "ca.pem").read_bytes()).decode()
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "node", "cluster": {"server": server, "certificate-authority-data": authority}}],
                "users": [{"name": name, "user": {"token": self._tokens[name]}}],
                "contexts": [{"name": "node", "context": {"cluster": "node", "user": name}}],
                "current-context": "node",
            }
        )

    def _write_settings(self) -> None:
        folder = self.folder
        ranges = {"ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
        ipam = {"type": "host-local", "dataDir": str(folder / "cni-state"), **ranges}
        plugins = [{**bridge, "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
        network = {"cniVersion": "0.4.0", "name": "node", "plugins": plugins}
        (folder / "cni" / "10-node.conflist").write_text(json.dumps(network))
        shutil.rmtree(folder / "cni-state", ignore_errors=True)
        (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, pause=PAUSE))
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._control_group}",
            "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
            "imageServiceEndpoint": f"unix://{folder}/containerd.sock",
            "podLogsDir": str(folder / "pod-logs"),
            "oomScoreAdj": 0,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "imagefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "resolvConf": str(folder / "resolv.conf"),
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "featureGates": {"KubeletInUserNamespace": True},
            "syncFrequency": "5s",
            "volumeStatsAggPeriod": "5s",
        }
        (folder / "kubelet.yaml").write_text(json.dumps(kubelet))  # JSON is YAML
        rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts:default"]}, {"level": "None"}]
        audit = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        (folder / "audit.yaml").write_text(json.dumps(audit))


_CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd/state"
oom_score = 0
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


def _make_control_groups(name: str) -> None:
    """Make the group that the kubelet needs in each hierarchy that is mounted."""
    version_2 = (_GROUPS / "cgroup.controllers").exists()
    for hierarchy in [_GROUPS] if version_2 else [_GROUPS / one for one in _VERSION_1 if (_GROUPS / one).is_dir()]:
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            with contextlib.suppress(OSError):
                (group / file).write_text((hierarchy / file).read_text())


def _remove_control_groups(name: str) -> None:
    """Remove what is below these groups, too; processes that were killed leave theirs in a moment."""
    deadline = time.monotonic() + STOP_SECONDS
    while groups := [group for pattern in (name, f"*/{name}") for group in _GROUPS.glob(pattern)]:
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
