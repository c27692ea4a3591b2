"""Texts of figures, each kind made in one place: sizes, lengths of time, rates, shares, and the counts of tasks.

Used wherever people read figures: in the command line, on the page, in notes of plans, and in reports of progress.
"""

from __future__ import annotations

SECONDS, BYTES = "seconds", "bytes"


def size(count: float) -> str:
    """Bytes as people read them.

    >>> size(512), size(1536), size(5_000_000), size(1024**2 - 1)
    ('512 B', '1.5 KiB', '4.8 MiB', '1.0 MiB')
    """
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(amount, 1) < 1024:
            return f"{count:,.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration(seconds: float) -> str:
    """A length of time as people read it.

    >>> duration(0.0421), duration(4.2), duration(59.96), duration(75), duration(7_300)
    ('42.1 ms', '4.2 s', '1 min 0 s', '1 min 15 s', '2 h 1 min')
    >>> duration(400_000), duration(400_000_000)
    ('4 d 15 h', '12.7 years')
    """
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    seconds = max(seconds, 60.0)
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    days = minutes // (24 * 60)
    return f"{days} d {minutes // 60 % 24} h" if days < 365 else f"{seconds / 31_556_952:.1f} years"


def rate(per_second: float) -> str:
    """A rate as people read it; a small one keeps a decimal.

    >>> rate(0.44), rate(20.0), rate(71_234.5)
    ('0.4/s', '20/s', '71,234/s')
    """
    return f"{per_second:,.1f}".removesuffix(".0") + "/s" if per_second < 100 else f"{per_second:,.0f}/s"


def share(percent: float, digits: int = 1) -> float:
    """Return a share in per cent, rounded: all but everything is never 100, and something never 0.

    >>> share(99.999), share(0.0001), share(100.0), share(42.123)
    (99.9, 0.1, 100.0, 42.1)
    """
    rounded, least = round(percent, digits), 10.0**-digits
    if rounded >= 100 > percent:
        return round(100 - least, digits)
    return least if rounded <= 0 < percent else rounded


def exact(value: float) -> float:
    """Return a sum without what its binary form adds to it: twelve digits are more than anybody measures.

    >>> exact(0.042100000000000005)
    0.0421
    """
    return float(f"{value:.12g}")


def unit_of(name: str) -> str:
    """Return the unit of a count of tasks, which its name ends with: ``seconds``, ``bytes``, or "" (a number).

    >>> unit_of("restore_seconds"), unit_of("remote_seconds.rates"), unit_of("scores"), unit_of("lateness.seconds")
    ('seconds', 'seconds', '', '')
    """
    word = name.partition(".")[0].rpartition("_")[2]
    return word if word in (SECONDS, BYTES) else ""


def counted(name: str, value: float) -> str:
    """Return a count of tasks with its name, as people read both.

    >>> counted("restore_seconds", 0.0421), counted("restored_from_root_bytes", 4536), counted("late_messages.w", 1200)
    ('restore: 42.1 ms', 'restored from root: 4.4 KiB', 'late messages.w: 1,200')
    """
    kind, dot, of = name.partition(".")
    unit = unit_of(name)
    kind = kind.removesuffix(unit).rstrip("_") or kind
    return f"{kind.replace('_', ' ')}{dot}{of}: {amount(value, unit)}"


def amount(value: float, unit: str = "") -> str:
    """Return a figure of a unit as people read it.

    >>> amount(1200), amount(0.1 + 0.2), amount(75, "seconds")
    ('1,200', '0.3', '1 min 15 s')
    """
    if unit == SECONDS:
        return duration(value)
    if unit == BYTES:
        return size(value)
    return f"{value:,}" if isinstance(value, int) else f"{exact(value):,}"
