"""Secrets of bindings, masked in Airflow's logs."""

from __future__ import annotations

from airflow_samza.secrecy import secret_texts
from airflow_samza.systems.system import SystemBinding


def masked(binding: SystemBinding) -> SystemBinding:
    """Have Airflow's logs mask every secret, also those that it does not know by their names."""
    from airflow.sdk.log import mask_secret

    for name in binding.secret:
        for text in secret_texts(binding.options[name]):
            mask_secret(text)
    return binding
