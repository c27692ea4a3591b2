"""Warnings about a cluster whose settings let others talk to a driver and its executors, or listen."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.launch.masters import Master

AUTHENTICATE = "spark.authenticate"
ENCRYPT = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.authenticate.enableSaslEncryption")


def open_doors(master: Master, conf: Mapping[str, str]) -> str | None:
    """Return a warning, in one line, where a cluster's driver and executors talk without a secret or in clear.

    None when they do not.

    A local Spark listens on loopback only, and what a Spark Connect server does is its own.
    """
    if not master.is_submitted:
        return None
    if conf.get(AUTHENTICATE, "").strip().lower() != "true":
        what = f"{AUTHENTICATE} is off: whoever reaches the ports of the driver or an executor can run code there"
    elif not any(conf.get(key, "").strip().lower() == "true" for key in ENCRYPT):
        what = (
            f"{ENCRYPT[0]} is off: whoever is on the network between driver and executors can read what goes "
            "there, secrets among it"
        )
    else:
        return None
    return (
        f"{what}. Set it in the cluster's spark-defaults.conf, or among the settings of the Spark connection "
        "(docs/operate/spark.md)."
    )
