"""Signatures of binary formats in the first bytes of a file that should be text."""

from __future__ import annotations

from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile, damaged

_PACKED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"\x04\x22\x4d\x18": ("lz4", ".lz4"),
    b"\xfd7zXZ\x00": ("xz", ""),
    b"PK\x03\x04": ("zip", ""),
}

_OTHERS = {
    b"PAR1": "Parquet",
    b"ORC\x01": "ORC",
    b"Obj\x01": "Avro",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def reject_binary(file: InputFile, format_name: str, data: bytes) -> None:
    """Reject a text file whose first bytes are those of something else."""
    for magic, (name, ending) in _PACKED.items():
        if data.startswith(magic):
            known = (
                f"Name it {ending}, then it is decompressed while it is read."
                if ending
                else "Unpack it, or pack it with gzip (.gz)."
            )
            raise damaged(file, format_name, f"it is compressed with {name}", known)
    for magic, name in _OTHERS.items():
        if data.startswith(magic):
            way_out = f"Convert it to UTF-8, or {READ_BY_SPARK} with Spark's option encoding." if "UTF" in name else ""
            raise damaged(file, format_name, f"it is {name}", way_out)
