"""The system ``files``: bounded input and output as ordinary files on any path.

:class:`~airflow_samza.systems.files.system.FilesSystem` is the way in.
"""

from airflow_samza.systems.files.system import FilesSystem

__all__ = ["FilesSystem"]
