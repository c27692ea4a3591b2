"""A real HDFS on this machine, one NameNode and one DataNode: ``python -m demo.hdfs`` starts one to try things with.

The jars come from Maven (``scripts/setup-jars.sh hdfs``). Both servers are processes of their own and listen on
127.0.0.1 only, on ports that were free; what they store lies in one folder.
"""

from __future__ import annotations

import argparse
import getpass
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.java_servers import START_SECONDS, NoServer, formatted, free_ports, jars, java_command, launched, serve

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"

_LOGGING = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class Hdfs:
    """One HDFS in a folder. ``settings`` are further ones of hdfs-site.xml."""

    name = "HDFS"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.conf_dir = folder / "conf"
        self.rpc_port, self.http_port = free_ports(2)
        self.namenode: subprocess.Popen[bytes] | None = None
        self.datanode: subprocess.Popen[bytes] | None = None
        self.settings = dict(settings or {})
        self._jars = jars("hdfs")

    @property
    def webhdfs(self) -> str:
        """Its address for WebHDFS."""
        return f"webhdfs://127.0.0.1:{self.http_port}"

    @property
    def hdfs(self) -> str:
        """Its address for Hadoop's own clients, Spark's among them."""
        return f"hdfs://127.0.0.1:{self.rpc_port}"

    def start(self) -> None:
        """Starts both servers, and returns when files can be written."""
        self.prepare()
        self.start_namenode()
        self.start_datanode()
        self.await_ready()

    def prepare(self) -> None:
        """Writes the configuration and what a NameNode starts with."""
        self._configure()
        shutil.copytree(formatted(self._jars, "name", self._format), self.folder / "name")

    def start_namenode(self) -> None:
        """Starts the NameNode, which is ready some seconds later."""
        self.namenode = self._java(NAMENODE, "namenode.log")

    def start_datanode(self) -> None:
        """Starts the DataNode."""
        self.datanode = self._java(DATANODE, "datanode.log")

    def await_ready(self, datanodes: int = 1) -> None:
        """Waits until the NameNode has left safe mode, and the DataNode has reported."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            state = self._state()
            if state.get("FSState") == "Operational" and int(str(state.get("NumLiveDataNodes", 0))) >= datanodes:
                return
            for server, log in ((self.namenode, "namenode.log"), (self.datanode, "datanode.log")):
                if server is not None and server.poll() is not None:
                    raise NoServer(
                        "HDFS did not start; the end of "
                        f"{self.folder / log}:\n{(self.folder / log).read_text()[-2000:]}"
                    )
            time.sleep(0.05)
        raise NoServer(f"HDFS was not ready after {START_SECONDS:.0f} s; its logs are in {self.folder}.")

    def admin(self, *arguments: str) -> str:
        """Return the output of ``hdfs dfsadmin``."""
        command = self._command("org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def stop(self) -> None:
        """Stops both servers."""
        for server in (self.datanode, self.namenode):
            if server is not None:
                server.kill()  # nobody needs what they store
                server.wait()

    def wait(self) -> None:
        """Returns when the NameNode has ended."""
        assert self.namenode is not None
        self.namenode.wait()

    def facts(self) -> str:
        """Return its addresses, and how Hadoop's clients find it."""
        return (
            f"  a root for airflow_samza   {self.webhdfs}/samza\n"
            f"  for Spark                  {self.hdfs}/\n"
            f"  for Hadoop's clients       export HADOOP_CONF_DIR={self.conf_dir} HADOOP_USER_NAME={getpass.getuser()}"
        )

    def _format(self, folder: Path) -> Sequence[str]:
        _write_settings(folder / "core-site.xml", {"fs.defaultFS": "hdfs://127.0.0.1:8020"})
        _write_settings(folder / "hdfs-site.xml", {"dfs.namenode.name.dir": f"file://{folder}/name"})
        classpath = [str(folder), f"{self._jars}/*"]
        return java_command(classpath, NAMENODE, "-format", "-force", "-nonInteractive")

    def _configure(self) -> None:
        # The servers look for the files of their pages, and need the folders at least.
        for page in ("hdfs", "datanode", "static"):
            (self.conf_dir / "webapps" / page).mkdir(parents=True)
        (self.conf_dir / "log4j.properties").write_text(_LOGGING)
        _write_settings(
            self.conf_dir / "core-site.xml", {"fs.defaultFS": self.hdfs, "hadoop.tmp.dir": str(self.folder)}
        )
        settings = {
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http_port}",
            "dfs.namenode.name.dir": f"file://{self.folder / 'name'}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.data.dir": f"file://{self.folder / 'data'}",
            "dfs.datanode.hostname": "127.0.0.1",
            **{f"dfs.datanode.{server}address": "127.0.0.1:0" for server in ("", "http.", "ipc.")},
            "dfs.replication": "1",
            # Small files are written one after the other here: a writer looks again soon whether a block is known.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            **self.settings,
        }
        _write_settings(self.conf_dir / "hdfs-site.xml", settings)

    def _state(self) -> dict[str, object]:
        url = f"http://127.0.0.1:{self.http_port}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                beans = json.load(answer)["beans"]
        except urllib.error.HTTPError as error:  # it is about to come up
            error.close()
            return {}
        except (OSError, ValueError, urllib.error.URLError):
            return {}
        return dict(beans[0]) if beans else {}

    def _command(self, program: str, *arguments: str) -> list[str]:
        return java_command([str(self.conf_dir), f"{self._jars}/*"], program, *arguments)

    def _java(self, program: str, log: str) -> subprocess.Popen[bytes]:
        return launched(self._command(program), self.folder / log)


def _write_settings(file: Path, settings: Mapping[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def main(arguments: list[str] | None = None) -> int:
    """Starts one, prints its addresses, and stops it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.hdfs", description=__doc__.partition("\n")[0])
    return serve(parser, lambda folder, _: Hdfs(folder), arguments)


if __name__ == "__main__":
    sys.exit(main())
