"""Message choosers, which decide which envelope is next. Pure: no I/O.

A task's chooser is made by :func:`~airflow_samza.chooser.default.make_chooser` from its
:class:`~airflow_samza.chooser.settings.ChooserSettings` and the heads that were taken at start;
:class:`~airflow_samza.chooser.runs.RunChooser` lets it choose among runs of messages, and
:func:`~airflow_samza.chooser.runs.taken` admits them to an epoch.
"""
