"""The commands of the page on comparisons, in the order of the page, print what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.documentation_pages import examples, text_of
from tests.support.typed_commands import Typed

PAGE = "how-to/compare.md"
SALES = ["1,nl,500", "2,de,200", "3,fr,50", "4,nl,0", "5,ch,900"]


@pytest.mark.extended  # as test_compare_command, by the commands of the page
def test_the_edit_of_the_page_is_compared_and_published(tmp_path: Path) -> None:
    shop = Typed(tmp_path, "shop", examples(PAGE)["shop.py"])
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales/2026-01-01.csv").write_text("\n".join(["id,country,cents", *SALES, ""]))
    first = shop.say("run", "shop:shop", "--run-id", "monday", "--interval", "2026-01-01/P1D", shop.data)
    assert first.returncode == 0, first.stderr
    commands = re.findall(r"^airflow-samza (.*)$", text_of(PAGE), flags=re.MULTILINE)
    (compare, _, publish) = [shlex.split(command) for command in commands]
    source = shop.source.replace("cents > 0", "cents > 100")
    shop.write(source.replace("upper(country)", "if(cents < 300, lower(country), upper(country))"))
    compared = shop.say(*compare, shop.data)
    assert compared.returncode == 1, compared.stderr
    (shown,) = re.findall(r"```text\n(.*?)```", text_of(PAGE), flags=re.DOTALL)
    assert compared.stdout == shown
    assert json.loads(shop.say(*compare, shop.data, "--json").stdout)["equal"] is False
    assert shop.say(*publish, shop.data).returncode == 0
    same = shop.say("compare", "shop:shop", "--as-of", "edited", shop.data)
    assert (same.returncode, same.stdout.splitlines()[1]) == (0, "  paid: 3 equal, 0 added, 0 gone, 0 different by id")
