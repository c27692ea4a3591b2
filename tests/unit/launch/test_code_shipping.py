from __future__ import annotations

import functools
import importlib
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch import code_shipping
from airflow_samza.launch.code_shipping import (
    archive_here,
    as_written,
    code_of,
    ship_archive,
    ship_code,
    ship_package,
)
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem

RUN = RunFolder("views", "run-1")


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Path]:
    """A folder on the path, as a Dag bundle is in a task; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "bundle"
    (folder / "shipped_pipelines" / "sql").mkdir(parents=True)
    (folder / "shipped_pipelines" / "__init__.py").write_text("")
    (folder / "shipped_pipelines" / "views.py").write_text("from shipped_beside import LIMIT\n")
    (folder / "shipped_pipelines" / "sql" / "a.sql").write_text("select 1")
    (folder / "shipped_beside.py").write_text("LIMIT = 1\n")
    (folder / "shipped_unused.py").write_text("1 / 0\n")
    sys.path.insert(0, str(folder))
    known = set(sys.modules)
    yield folder
    sys.path.remove(str(folder))
    for name in set(sys.modules) - known:
        del sys.modules[name]


def content(files: LocalFilesystem, path: str) -> set[str]:
    return set(zipfile.ZipFile(io.BytesIO(files.read(path))).namelist())


def views() -> ModuleType:
    return importlib.import_module("shipped_pipelines.views")


def test_ships_the_whole_package_and_what_was_imported_beside_it(bundle: Path, tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path / "root")
    shipped = ship_code(files, RUN, code_of(views()))
    assert content(files, shipped.path) == {
        "shipped_pipelines/__init__.py",
        "shipped_pipelines/views.py",
        "shipped_pipelines/sql/a.sql",
        "shipped_beside.py",
    }
    assert shipped.origin == str(bundle)


def test_what_is_private_stays_and_is_counted_with_the_rule_that_brings_it_in(
    bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pack = bundle / "shipped_pipelines"
    (pack / ".ssh").mkdir()
    (pack / ".ssh" / "id_rsa").write_text("key")
    (pack / ".env").write_text("PASSWORD=x")
    (tmp_path / "protected").write_text("elsewhere")
    (pack / "leads_out.txt").symlink_to(tmp_path / "protected")
    (pack / "own.key").write_text("key")
    (pack / "own.key").chmod(0o600)
    (pack / "closed").mkdir(0o700)
    (pack / "closed" / "a.txt").write_text("only for the owner")
    (pack / "linked.sql").symlink_to("sql/a.sql")
    files = LocalFilesystem(tmp_path / "root")
    with caplog.at_level("INFO"):
        shipped = ship_code(files, RUN, code_of(views()))
    assert content(files, shipped.path) == {
        "shipped_pipelines/__init__.py",
        "shipped_pipelines/views.py",
        "shipped_pipelines/sql/a.sql",
        "shipped_pipelines/linked.sql",
        "shipped_beside.py",
    }
    (line,) = [record.getMessage() for record in caplog.records if "do not travel" in record.getMessage()]
    assert "5 files and folders" in line
    assert "shipped_pipelines/.env, shipped_pipelines/.ssh/," in line
    assert "chmod" in line


def test_a_folder_of_which_all_is_for_its_owner_alone_travels(bundle: Path, tmp_path: Path) -> None:
    for path in (bundle / "shipped_pipelines").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    code = code_of(views())
    assert "shipped_pipelines/sql/a.sql" in {entry.name for entry in code.entries}
    assert code.staying == []


def test_a_module_that_was_imported_travels_whoever_may_read_it(bundle: Path, tmp_path: Path) -> None:
    (bundle / "shipped_beside.py").chmod(0o600)
    elsewhere = (bundle / "shipped_pipelines" / "views.py").rename(tmp_path / "views.py")
    (bundle / "shipped_pipelines" / "__init__.py").write_text("import shipped_pipelines.rules\n")
    (bundle / "shipped_pipelines" / "rules.py").symlink_to(elsewhere)
    code = code_of(importlib.import_module("shipped_pipelines"))
    assert {"shipped_beside.py", "shipped_pipelines/rules.py"} <= {entry.name for entry in code.entries}
    assert code.staying == []


def test_links_of_a_folder_that_py_modules_names_stay_in_it(bundle: Path, tmp_path: Path) -> None:
    pack = tmp_path / "more" / "pack"
    pack.mkdir(parents=True)
    (pack / "__init__.py").write_text("")
    (tmp_path / "more" / "beside.txt").write_text("")
    (pack / "beside.txt").symlink_to("../beside.txt")
    (tmp_path / "more" / "named.json").write_text("{}")
    code = code_of(views(), [str(pack), str(tmp_path / "more" / "named.json")])
    assert code.staying == ["pack/beside.txt"]
    assert {"pack/__init__.py", "named.json"} <= {entry.name for entry in code.entries}


def test_the_zip_is_for_those_who_may_write_the_root(bundle: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for mode, folder, file in ((0o755, 0o700, 0o600), (0o2770, 0o2770, 0o640), (0o777, 0o777, 0o644)):
            root = tmp_path / oct(mode)
            root.mkdir()
            root.chmod(mode)
            shipped = root / ship_code(LocalFilesystem(root), RUN, code_of(views())).path
            modes = [path.stat().st_mode & 0o7777 for path in (shipped, *shipped.parents[:4])]
            assert modes == [file, *[folder] * 4]
            (root / "topics").mkdir()
            LocalFilesystem(root).put_if_absent("topics/a/b", b"")
            assert ((root / "topics/a").stat().st_mode & 0o777, (root / "topics/a/b").stat().st_mode & 0o777) == (
                0o755,
                0o644,
            )
    finally:
        os.umask(before)


def test_a_package_without_an_init_file_is_found_in_what_is_shipped(bundle: Path, tmp_path: Path) -> None:
    (bundle / "shipped_plain" / "deep").mkdir(parents=True)
    (bundle / "shipped_plain" / "deep" / "views.py").write_text("LIMIT = 7\n")
    files = LocalFilesystem(tmp_path / "root")
    shipped = ship_code(files, RUN, code_of(importlib.import_module("shipped_plain.deep.views")))
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import shipped_plain.deep.views as views; print(views.LIMIT)"
    )
    command = [sys.executable, "-S", "-c", program, str(tmp_path / "root" / shipped.path)]
    assert subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True).stdout == "7\n"


def test_ships_what_functions_import_when_they_are_called_and_what_that_imports(bundle: Path, tmp_path: Path) -> None:
    more = "\n\ndef later():\n    import json, shipped_unused as unused\n    from shipped_deep.one import two\n"
    (bundle / "shipped_pipelines" / "views.py").write_text(f"from shipped_beside import LIMIT{more}")
    (bundle / "shipped_deep").mkdir()
    (bundle / "shipped_deep" / "__init__.py").write_text("")
    (bundle / "shipped_deep" / "one.py").write_text("def two():\n    from shipped_last import three\n")
    (bundle / "shipped_last.py").write_text("")
    (bundle / "shipped_by_nobody.py").write_text("")
    files = LocalFilesystem(tmp_path / "root")
    shipped = content(files, ship_code(files, RUN, code_of(views())).path)
    assert {"shipped_unused.py", "shipped_deep/one.py", "shipped_last.py"} <= shipped
    assert "shipped_by_nobody.py" not in shipped
    assert "shipped_unused" not in sys.modules


def test_the_same_code_is_shipped_once_and_changed_code_under_another_name(bundle: Path, tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path / "root")
    first = ship_code(files, RUN, code_of(views()))
    (bundle / "shipped_beside.py").touch()
    assert ship_code(files, RUN, code_of(views())) == first
    (bundle / "shipped_beside.py").write_text("LIMIT = 2\n")
    assert ship_code(files, RUN, code_of(views())).path != first.path
    assert len(files.list(RUN.code)) == 2


def test_files_that_stay_as_they_are_are_read_once(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_shipping, "_RACY", -(10**12))  # nothing has just changed
    files = LocalFilesystem(tmp_path / "root")
    first = ship_code(files, RUN, code_of(views()))
    with monkeypatch.context() as patch:
        patch.delattr(Path, "read_bytes")
        other = ship_code(files, RunFolder("views", "run-2"), code_of(views()))
    assert other.path.rpartition("/")[2] == first.path.rpartition("/")[2]
    assert files.read(other.path) == files.read(first.path)


@pytest.mark.parametrize("racy", [-(10**12), 10**12], ids=["long-ago", "just-now"])
def test_an_edit_that_keeps_size_and_time_of_a_file_is_seen(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, racy: int
) -> None:
    monkeypatch.setattr(code_shipping, "_RACY", racy)
    files = LocalFilesystem(tmp_path / "root")
    file = bundle / "shipped_pipelines" / "sql" / "a.sql"
    before, times = code_of(views()), file.stat()
    ship_code(files, RUN, before)
    data = before.digests.data
    file.write_text("select 2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = code_of(views())
    assert after.digests.data != data
    path = ship_code(files, RUN, after).path
    assert b"select 2" in zipfile.ZipFile(io.BytesIO(files.read(path))).read("shipped_pipelines/sql/a.sql")


def test_a_file_that_has_just_changed_is_read_anew(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFilesystem(tmp_path / "root")
    before = ship_code(files, RUN, code_of(views()))
    monkeypatch.setattr("os.stat", functools.lru_cache(os.stat))  # a clock too coarse to show the next edit
    ship_code(files, RUN, code_of(views()))
    (bundle / "shipped_beside.py").write_text("LIMIT = 2\n")
    assert ship_code(files, RUN, code_of(views())).path != before.path


def test_py_modules_bring_files_packages_and_wheels(bundle: Path, tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path / "root")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.py").write_text("")
    (tmp_path / "more" / "pack").mkdir()
    (tmp_path / "more" / "pack" / "__init__.py").write_text("")
    with zipfile.ZipFile(tmp_path / "more" / "lib.whl", "w") as wheel:
        wheel.writestr("lib/__init__.py", "")
    paths = [str(tmp_path / "more" / name) for name in ("one.py", "pack", "lib.whl")]
    assert {"one.py", "pack/__init__.py", "lib/__init__.py"} <= content(
        files, ship_code(files, RUN, code_of(views(), paths)).path
    )


def test_a_py_module_that_is_missing_is_named(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.py, which py_modules names"):
        ship_code(LocalFilesystem(tmp_path / "root"), RUN, code_of(views(), [str(tmp_path / "nothing.py")]))


def test_an_application_of_the_main_module_cannot_be_shipped(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no other process can import"):
        ship_code(LocalFilesystem(tmp_path), RUN, code_of(ModuleType("__main__")))


def test_places_in_the_zip_are_shown_as_the_user_wrote_them() -> None:
    for copy in ("/r/code/ab.zip", "/tmp/spark-1/userFiles-2/ab.zip"):
        assert (
            as_written(f"in x ({copy}/p/v.py:3).", "/r/code/ab.zip", "/home/me/dags")
            == "in x (/home/me/dags/p/v.py:3)."
        )


def test_our_own_package_is_shipped_whole_and_under_the_digest_of_its_content(tmp_path: Path) -> None:
    files = LocalFilesystem(str(tmp_path))
    path = ship_package(files, RUN)
    assert path == ship_package(files, RUN)
    names = content(files, path)
    assert {"airflow_samza/__init__.py", "airflow_samza/spark/worker_daemon.py", "__main__.py"} <= names
    names.remove("__main__.py")  # the program of drivers
    assert all(name.startswith("airflow_samza/") and not name.endswith(".pyc") for name in names)


def test_an_archive_is_copied_once_and_keeps_the_name_under_which_it_is_unpacked(tmp_path: Path) -> None:
    files = LocalFilesystem(str(tmp_path / "root"))
    archive = tmp_path / "words.tar.gz"
    archive.write_bytes(b"not read here")
    named, plain = ship_archive(files, RUN, f"{archive}#words"), ship_archive(files, RUN, str(archive))
    path = named.removesuffix("#words")
    copy = files.location(path)
    assert Path(copy).read_bytes() == b"not read here"
    assert plain == f"{path}#words.tar.gz"
    assert archive_here(files, named) == f"{copy}#words"
    assert [found.name for found in Path(copy).parent.iterdir()] == [Path(copy).name]
    archive.write_bytes(b"other content")
    assert ship_archive(files, RUN, f"{archive}#words") != named


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no archive .*words\.tar\.gz"):
        ship_archive(LocalFilesystem(str(tmp_path)), RUN, str(tmp_path / "words.tar.gz#words"))


def test_modules_are_found_through_links_to_their_folder(bundle: Path) -> None:
    link = bundle.parent / "link"
    link.symlink_to(bundle)
    sys.path.remove(str(bundle))
    sys.path.insert(0, str(link))
    try:
        module = importlib.import_module("shipped_pipelines.views")
        assert str(module.__file__).startswith(str(link))
        code = code_of(module)
        origin, entries = code.origin, code.entries
    finally:
        sys.path.remove(str(link))
        sys.path.insert(0, str(bundle))
    assert origin == bundle.resolve()
    assert {"shipped_beside.py", "shipped_pipelines/views.py"} <= {name for name, *_ in entries}
