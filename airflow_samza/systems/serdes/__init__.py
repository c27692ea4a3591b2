"""Serdes, which convert a message's columns into the bytes that a system sends, and back.

:mod:`~airflow_samza.systems.serdes.serde` is the protocol, :func:`~airflow_samza.systems.serdes.binding.bind_serde`
makes one of what an application declares, and :mod:`~airflow_samza.systems.serdes.wire` puts user messages and control
messages into one stream of bytes.
"""
