"""Comparison of the files of an output with its manifests. It changes nothing.

The command ``fsck`` shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.namesakes import newest_root
from airflow_samza.systems.files.output_records import FOLDER, manifest_path, read_manifest, read_writer
from airflow_samza.systems.files.published_files import View
from airflow_samza.systems.log.fsck import Finding
from airflow_samza.systems.output_slots import is_of_other_root

_REMEDY = "Restore the file, or clear the stage that wrote it, which writes the output again."


def fsck_output(output: Location) -> Iterator[Finding]:
    """Yield all findings on an output directory: records that cannot be read, and files that are missing or cut off.

    Only files that readers see are checked: those of what was replaced belong to no output any more.
    """
    view = View.of(output)
    for turn in view.turns:
        try:
            read_writer(output, turn)
        except FileNotFoundError:  # replaced since it was listed
            continue
        except TopicError as error:
            yield Finding(
                str(turn.place(output)),
                f"is damaged: {error.sentence.partition(' is damaged: ')[2].removesuffix('.')}",
                error.hint,
                serious=False,
            )
    for producer, generation, epoch in view.standing():
        place = manifest_path(output, producer, generation, epoch)
        try:
            manifest = read_manifest(place)
        except FileNotFoundError:  # superseded since it was listed
            continue
        except TopicError as error:
            yield Finding(str(place), "is a damaged manifest", error.hint)
            continue
        for name, _, size in manifest.files:
            file = output / name
            info = output.filesystem.get_file_info(file.path)
            if info.type == pafs.FileType.NotFound:
                yield Finding(str(file), f"is missing, and {place.name} names it", _REMEDY)
            elif info.size != size:
                yield Finding(str(file), f"has {info.size} bytes, and {size} were written", _REMEDY)


def fsck_unrecorded(
    output: Location, published: Mapping[str, datetime], recorded: Collection[str], root: str = ""
) -> Iterator[Finding]:
    """Yield a finding for each producer that a root has no record of, and that published after all that it has.

    Retention deletes the records of old runs, so an older producer without a record is nothing special. One that is
    newer than the root is a run that was lost when an older copy of the root was restored.

    ``published`` is that of :func:`published_at`, ``recorded`` are the hashes of the producers on record,
    ``root`` is the identity of the root ("": not known). Producers of other roots are let through.
    """
    newest = max((published[producer] for producer in recorded if producer in published), default=None)
    later = {
        producer: at
        for producer, at in published.items()
        if newest is not None and producer not in recorded and at > newest
    }
    view = View.of(output) if later else View(())
    for producer, at in sorted(later.items(), key=lambda item: item[1]):
        if not is_of_other_root(root, newest_root(output, view, producer)[0]):
            yield Finding(
                str(output),
                f"has files of a run that is not on record, published at {at:%Y-%m-%d %H:%M:%SZ}, after those of all "
                "runs that are",
                "If an older copy of the root was restored, the next run writes these rows once more: first remove "
                f"{output}/part-*-{producer}-*, then {output}/{FOLDER}/manifests/{producer}.*. "
                "If another root writes to this folder, too, they are its files: leave them.",
                serious=False,
            )
