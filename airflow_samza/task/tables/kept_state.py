"""The error for state that does not fit the operator that would continue from it, where no plan could compare them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from airflow_samza.errors import StateError


@contextmanager
def fitting_state(title: str) -> Iterator[None]:
    """Turn what Arrow raises of kept columns of another form into a :class:`~airflow_samza.errors.StateError`.

    ``title`` names the operator or table that kept them in a sentence.
    """
    try:
        yield
    except (pa.ArrowException, KeyError, IndexError) as error:
        what = " ".join(str(error).split())
        raise StateError(
            f"The state that was kept of {title} does not fit it any more: {what[:200]}.",
            hint="Change the code back; or give it a new id and name the former one in dropped=[…]; or forget the "
            "state: airflow-samza state reset.",
            operator=title,
        ) from error
