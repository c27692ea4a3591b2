"""Random typed expressions: templates whose holes are filled with expressions of the type that the hole names."""

from __future__ import annotations

import random
import re

LEAVES: dict[str, list[str]] = {
    "tiny": ["t", "1Y", "CAST(i AS tinyint)"],
    "short": ["s", "300S", "t"],
    "int": [
        "i",
        "j",
        "k",
        "0",
        "1",
        "-1",
        "7",
        "2147483647",
        "st.a",
        "mp['a']",
        "size(ai)",
        "length(x)",
        "dayofyear(u)",
        "hour(w)",
    ],
    "long": ["b", "c", "i", "5L", "2147483648", "unix_seconds(w)"],
    "float": ["f", "g"],
    "double": ["d", "e", "1e3", "-2.5e-1", "st.c.d", "CAST(1.5 AS double)"],
    "decimal": ["n", "m", "o", "1.5", "0.10", "-2.", "100.00"],
    "constant": ["3", "-3", "+3", "(3)", "- +3", "0", "12", "3L", "300S", "7Y", "1.50", "-2.5", "+0.5", "2147483648"],
    "boolean": ["p", "q", "i > j", "x = y", "d < e", "u IS NULL"],
    "string": ["x", "y", "h", "'a'", "''", "'é'", "st.b", "ax[0]", "mq[1]", "'12'"],
    "date": ["u", "v", "DATE '2020-02-29'", "CAST(w AS date)"],
    "timestamp": ["w", "z", "TIMESTAMP '1969-12-31 23:59:59.999999'", "CAST(u AS timestamp)"],
    "small": ["0", "1", "2", "3", "-1", "-2", "5", "i", "st.a"],
    "few": ["0", "1", "2", "3", "-1", "-2", "5"],
    "text": ["'a'", "','", "' '", "''", "'ab'", "'😀'", "'é'"],
    "pattern": ["'a%'", "'%b'", "'%a%'", "'_'", "'%'", "''", "'a_b'", "'_%é'", "'%,%'"],
    "unit": ["'YEAR'", "'month'", "'WEEK'", "'quarter'"],
    "moment_unit": ["'year'", "'MM'", "'week'", "'DAY'", "'hour'", "'minute'", "'SECOND'", "'millisecond'"],
}


def _templates(text: str) -> list[str]:
    return [" ".join(template.split()) for template in text.split(";")]


RULES: dict[str, list[str]] = {
    "tiny": _templates("""
        ({tiny} + {tiny}); abs({tiny}); coalesce({tiny}, {tiny})
    """),
    "short": _templates("""
        ({short} - {tiny}); greatest({short}, {tiny})
    """),
    "int": _templates("""
        try_cast({string} AS int);
        ({int} + {int}); ({int} - {short}); ({int} * {int}); ({int} % {int}); (- {int}); abs({int}); pmod({int}, {int});
        length({string}); char_length({string}); instr({string}, {text}); locate({text}, {string}, 2);
        year({date}); month({timestamp}); day({date}); quarter({date}); dayofweek({date}); weekday({timestamp}); weekofyear({date});
        dayofyear({date}); hour({timestamp}); minute({timestamp}); second({timestamp}); datediff({date}, {date}); unix_date({date});
        ai[{few}]; element_at(ai, {few}); get(ai, {small}); mp[{text}]; size(ax); size(mp); CAST({double} AS int); CAST({decimal} AS
        int); CAST({string} AS int); CAST({boolean} AS int); CAST({long} AS int); greatest({int}, {int}, {short}); least({int}, {int});
        coalesce({int}, {int}); nullif({int}, {int}); round({int}); size(split({string}, {split})); extract(YEAR
        FROM {timestamp}); rs[0].a
    """),
    "long": _templates("""
        ({long} + {int}); ({long} * {long}); ({int} div {long}); ({long} % {int}); floor({double}); ceil({float});
        unix_micros({timestamp}); unix_timestamp({timestamp}); unix_millis({timestamp}); CAST({timestamp} AS bigint); abs({long});
        CAST({string} AS bigint); CAST({double} AS bigint); coalesce({long}, {int}); pmod({long}, {int})
    """),
    "float": _templates("""
        ({float} + {float}); CAST({double} AS float); abs({float}); nullif({float}, {float}); CAST({string} AS float)
    """),
    "double": _templates("""
        try_divide({int}, {double}); try_cast({string} AS double);
        ({double} + {double}); ({double} - {float}); ({double} * {int}); ({double} / {double}); ({int} / {int}); ({double} % {int});
        sqrt({double}); sign({double}); signum({int}); round({double}, {digits}); abs({double}); CAST({decimal} AS double);
        CAST({string} AS double); CAST({int} AS double); CAST({timestamp} AS double); greatest({double}, {double}); (- {double});
        least({double}, {float}); coalesce({double}, {int}); ({decimal} + {double}); pmod({double}, {double}); nullif({double}, {int})
    """),
    "decimal": _templates("""
        ({decimal} + {decimal}); ({decimal} - {int}); ({decimal} * {decimal}); abs({decimal}); floor({decimal}); ceil({decimal});
        round({decimal}, {digits}); CAST({decimal} AS decimal(12,3)); CAST({int} AS decimal(12,2)); CAST({decimal} AS decimal(9,1));
        coalesce({decimal}, {int}); greatest({decimal}, {decimal}); (- {decimal}); ({decimal} {sum} {constant}); ({constant} {sum}
        {decimal}); least({decimal}, {constant})
    """),
    "constant": _templates("""
        CAST({constant} AS int); int({constant}); bigint({constant}); CAST({constant} AS smallint); CAST({constant} AS decimal(9,2));
        {constant}::int; round({constant}); round({constant}, 1); floor({constant}); ceil({constant}); abs({constant}); (- {constant});
        (+ {constant}); negative({constant}); positive({constant}); ({constant} {sum} {constant}); coalesce({constant}, 1);
        coalesce(NULL, {constant}); nullif({constant}, 99); greatest({constant}, 2); least(2, {constant}); if(1 < 2, {constant}, 5);
        CASE WHEN 2 > 1 THEN {constant} END; length('abc'); year(DATE '2020-02-29'); CAST('12' AS int);
        try_cast('3' AS int); pmod(7, {constant}); mod({constant}, 4); size(split('a,b', ',')); (7 div 2);
        CAST(2.7D AS int); datediff(DATE '2020-03-01', DATE '2020-02-28'); CAST(true AS int); instr('abc', 'c')
    """),
    "boolean": _templates("""
        ({int} {compare} {long}); ({double} {compare} {float}); ({decimal} {compare} {int}); ({decimal} {compare}
        {constant}); ({string} {compare} {string}); ({date}
        {compare} {date}); ({timestamp} {compare} {timestamp}); ({date} {compare} {timestamp}); ({boolean} <=> {boolean}); ({string}
        LIKE {pattern}); ({string} NOT LIKE {pattern}); ({string} ILIKE {pattern}); startswith({string}, {text}); endswith({string},
        {text}); contains({string}, {text}); (NOT {boolean}); ({boolean} AND {boolean}); ({boolean} OR {boolean}); ({int} IN ({int}, 7,
        NULL)); ({string} IN ('a', 'x', {string})); ({date} NOT IN (DATE '2020-02-29')); ({double} IS NULL); ({string} IS NOT NULL);
        ({int} BETWEEN {int} AND {long}); ({date} BETWEEN '1970-01-01' AND {date}); CAST({int} AS boolean); array_contains(ai, {few});
        array_contains(ax, {text}); ({timestamp} >= '2020-01-01'); coalesce({boolean}, {boolean})
    """),
    "string": _templates("""
        upper({string}); lower({string}); trim({string}); ltrim({string}); rtrim({string}); substring({string}, {small}, {small});
        substring({string}, {few}); left({string}, {few}); right({string}, {few}); concat({string}, {string}); ({string} || {int});
        concat_ws('-', {string}, {string}, {string}); replace({string}, {text}, {text}); lpad({string}, {few}, {text});
        rpad({string}, 7, 'é😀'); repeat({string}, {few}); split_part({string}, {split}, {part}); CAST({int} AS
        string); CAST({date} AS string); CAST({timestamp} AS string); CAST({boolean} AS string); CAST({decimal} AS string); get(ax,
        {small}); coalesce({string}, {string}); nullif({string}, {string}); greatest({string}, {string}); mq[{key}]; btrim({string}, 'a
        '); CASE WHEN {boolean} THEN {string} WHEN {boolean} THEN {string} END
    """),
    "date": _templates("""
        try_cast({string} AS date);
        date_add({date}, {small}); date_sub({date}, {few}); ({date} + {short}); add_months({date}, {few}); last_day({date});
        trunc({date}, {unit}); to_date({timestamp}); ({date} + INTERVAL 1 DAY); ({date} - INTERVAL 3 MONTHS); CAST({string} AS date);
        coalesce({date}, {date}); least({date}, {date})
    """),
    "timestamp": _templates("""
        date_trunc({moment_unit}, {timestamp}); ({timestamp} + INTERVAL 1 DAY); ({timestamp} - INTERVAL 90 MINUTES);
        to_timestamp({date}); ({timestamp} + INTERVAL 1 MONTH); timestamp_seconds({int}); timestamp_micros({long});
        greatest({timestamp}, {timestamp}); coalesce({timestamp}, {date}); CAST({int} AS timestamp)
    """),
}
WORDS = {
    "compare": ["=", "<>", "<", "<=", ">", ">=", "<=>", "=="],
    "sum": ["+", "-", "*"],
    "split": ["','", "' '", "'a'", "'é'"],
    "part": ["1", "2", "-1", "7"],
    "digits": ["0", "1", "2", "5"],
    "key": ["1", "2", "-7L"],
}
CHOICES = [
    "if({boolean}, {kind}, {kind})",
    "CASE WHEN {boolean} THEN {kind} ELSE {kind} END",
    "coalesce({kind}, {kind})",
]
_HOLE = re.compile(r"\{(\w+)\}")


class Generator:
    """Makes expressions of a type; the seed decides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, kind: str, depth: int) -> str:
        """An expression of a type, at most so deep."""
        if kind in WORDS:
            return self.random.choice(WORDS[kind])
        draw = self.random.random()
        if kind not in RULES or depth <= 0 or draw < 0.15:
            return self.random.choice(LEAVES[kind])
        template = self.random.choice(CHOICES if draw < 0.25 else RULES[kind])
        return _HOLE.sub(lambda hole: self.of(kind if hole[1] == "kind" else hole[1], depth - 1), template)

    def any(self, depth: int) -> str:
        """An expression of any type."""
        return self.of(self.random.choice([*RULES]), depth)

    def with_constant(self) -> str:
        """An expression of a decimal and a constant that is no plain literal, as a rule."""
        decimal, constant, symbol = self.of("decimal", 0), self.of("constant", 2), self.of("sum", 0)
        forms = [
            f"{decimal} {symbol} {constant}",
            f"{constant} {symbol} {decimal}",
            f"({decimal} {symbol} {constant}) {self.of('sum', 0)} {self.of('constant', 1)}",
            f"coalesce({decimal}, {constant})",
            f"{decimal} {self.of('compare', 0)} {constant}",
            f"{decimal} IN ({constant}, {self.of('constant', 1)})",
            f"{decimal} BETWEEN {constant} AND {self.of('constant', 1)}",
        ]
        return self.random.choice(forms)

    def beside(self) -> str:
        """An expression that only Catalyst evaluates."""
        return self.random.choice(
            ["uuid()", "rand(7)", "x RLIKE 'a'", "sha1(x)", "ln(d)", "transform(ai, one -> one + 1)", "initcap(y)"]
        )

    def flat(self) -> str:
        """A condition without any parentheses, for the ranks of operators."""
        parts = [self._flat_part() for _ in range(self.random.randrange(1, 4))]
        return " ".join(
            f"{self.random.choice(['AND', 'OR']) if place else ''} {part}" for place, part in enumerate(parts)
        ).strip()

    def _flat_part(self) -> str:
        one, other, third = self._sum(), self._sum(), self._sum()
        compare = self.random.choice(WORDS["compare"])
        forms = [
            *(
                f"{one} {compare} {other}",
                f"{one} {compare} {other}",
                f"{one} BETWEEN {other} AND {third}",
                f"{one} NOT BETWEEN {other} AND {third}",
            ),
            *(
                f"{one} IN (1, 7)",
                f"{one} NOT IN (2, 3)",
                f"{one} IS NULL",
                f"{one} IS NOT NULL",
                "p",
                "p <=> q",
                f"{one} <=> {other}",
            ),
            *(
                "x LIKE 'a%'",
                "x || y LIKE '%a%'",
                "x NOT LIKE y || '%'",
                "x = y || 'a'",
                "x || '-' || y > 'b'",
                "x NOT LIKE '_' ",
                "p = q",
            ),
            *(
                f"{one} IS DISTINCT FROM {other}",
                f"{one} {compare} {other} {compare} {third}",
                "x IS NOT NULL = p",
                f"{one} {compare} {other} IS NULL",
            ),
        ]
        return self.random.choice(["", "", "NOT ", "! "]) + self.random.choice(forms)

    def _sum(self) -> str:
        words = [self.random.choice(["d", "e", "i", "2", "- d", "1.5", "j", "e", "k"])]
        for _ in range(self.random.randrange(3)):
            words += [
                self.random.choice(["+", "-", "*", "/", "%", "DIV", "+", "*", "||", "&"]),
                self.random.choice(["d", "j", "3", "- e", "i"]),
            ]
        return " ".join(words)
