"""The expressions that are always tried, by subject.

Most of them run on Arrow, those that must not are among them, too.
"""

CORE = [
    "i + 1", "t + t", "t + 1", "s * s", "b + c", "b * c", "- b", "- t", "i - b", "i / j", "i / 0", "b % c", "t % 0", "i % -1", "d % e",
    "d / e", "d / 0", "NULL IS NULL", "f + d", "f + i", "f * f", "f / f", "i + 1.5", "n + m", "n - m", "n * m", "n * "
                                                                                                                "1.5", "i * 0.10",
    "b + 1.5", "n = 1.5", "n > i", "m < 2", "b > 1.5", "d > 1.5", "f > 1.5", "f = 0.1", "d = e", "d <> e", "d < e", "d <= e", "d > e",
    "d >= e", "d <=> e", "f = d", "d = 0", "d = -0.0", "i <=> NULL", "NULL <=> x", "i <=> j", "x <=> y", "p AND q", "p OR q", "NOT p",
    "p = q", "p < q", "x = y", "x < y", "u < v", "u = DATE '2020-02-29'", "u > '2000-01-01'", "w < z", "w = z", "i IN "
                                                                                                                "(1, "
                                                                                                                "7)",
    "i IN (1, NULL)", "i NOT IN (1, NULL)", "i IN (1, 2L)", "x IN ('a', '12')", "d IN (1.5D, 0D)", "b IN (1.5, 1)", "u IN ('2020-02-29')",
    "n IN (1.5, 2)", "i BETWEEN 0 AND 10", "d BETWEEN e AND 10", "CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END",
    "CASE WHEN j <> 0 THEN i / j END", "CASE WHEN j <> 0 THEN i % j ELSE b END", "CASE WHEN p THEN 1 ELSE 1.5 END",
    "CASE WHEN p THEN i ELSE d END", "CASE WHEN p THEN b ELSE f END", "CASE WHEN p THEN NULL ELSE i END", "if(p, i, b)",
    "if(i / j > 1, 1, 0)", "j <> 0 AND i / j > 1", "j = 0 OR i / j > 1", "CAST(d AS int)", "CAST(d AS bigint)", "CAST(d AS tinyint)",
    "CAST(f AS bigint)", "CAST(b AS int)", "CAST(b AS double)", "CAST(b AS float)", "CAST(d AS float)", "CAST(f AS "
                                                                                                        "double)",
    "CAST(i AS string)", "CAST(p AS string)", "CAST(p AS int)", "CAST(p AS double)", "CAST(d AS boolean)", "CAST(i AS "
                                                                                                           "boolean)",
    "CAST(x AS int)", "CAST(x AS bigint)", "CAST(x AS tinyint)", "CAST(n AS double)", "CAST(i AS decimal(12,2))",
    "CAST(i AS decimal(5,2))", "CAST(n AS decimal(12,4))", "CAST(n AS decimal(6,2))", "CAST(b AS decimal(38,18))", "CAST(NULL AS int)",
    "CAST(1.5 AS double)", "CAST(' 12 ' AS int)", "int(d)", "d::int", "i + CAST(x AS int)", "j + i / j", "c + b % c", "i IS NOT NULL",
    "(i + j) IS NULL", "i IS NOT DISTINCT FROM j", "i IS DISTINCT FROM j", "-2147483648", "2147483648", "-9223372036854775808", "1.",
    ".5", "0.10", "1e3", "1.5F", "'a'", "TRUE", "i == j", "i != j", "! p", "NOT i = j", "i = j IS NULL", "- - i", "(((i)))", "mod(i, 7)",
]  # fmt: skip

CHOICES = [
    "coalesce(i, j)", "coalesce(i, b, 0)", "coalesce(n, 0)", "coalesce(x, 'a')", "coalesce(i, i / j)", "coalesce(d, "
                                                                                                       "f)", "ifnull(i, j)",
    "nvl(x, y)", "nvl(k, i)", "coalesce(i,k)", "coalesce(NULL, i)", "nullif(i, j)", "nullif(d, e)", "nullif(x, 'a')", "nullif(k, 3)",
    "if(p, i, j)", "greatest(i, j)", "greatest(i, b, 1.5)", "greatest(d, e)", "least(d, e, f)",
    "greatest(x, y)", "least(u, v)", "greatest(n, m)", "least(i, NULL)", "greatest(p, q)", "greatest(f, g)",
    "coalesce(u, DATE '2020-01-01')", "coalesce(f, 1)", "coalesce(t, s)", "coalesce(m, n, o)", "coalesce(i, n)",
]  # fmt: skip

PATTERNS = [
    "x LIKE 'a%'", "x LIKE '%a'", "x LIKE '%a%'", "x LIKE 'a'", "x LIKE ''", "x LIKE '%'", "x LIKE '_'", "x LIKE "
                                                                                                         "'__'", "x "
                                                                                                                 "LIKE '_b'",
    "x NOT LIKE 'a_b'", "x LIKE 'a!_b' ESCAPE '!'", "x LIKE '%.%'", "x LIKE 'a%b'", "x LIKE '%😀%'", "x LIKE '😀_😀'", "x ILIKE 'A%'",
    "x ILIKE '%Σ%'", "x LIKE '%%'", "x LIKE '%!%%' ESCAPE '!'", "h LIKE 'a%'", "startswith(x, 'a')", "endswith(x, 'b')",
    "contains(x, ',')", "startswith(x, '')", "contains(x, '')", "like(x, 'a%')", "x LIKE y", "x LIKE 'a%' AND y LIKE "
                                                                                             "'b%'",
    "x LIKE '%\\t%'",
]  # fmt: skip

STRINGS = [
    "character_length(x)", "lcase(y)", "ilike(x, 'A%')",
    "length(x)", "char_length(x)", "len(x)", "upper(x)", "lower(x)", "ucase(h)", "trim(x)", "ltrim(x)", "rtrim(x)",
    "btrim(x)", "btrim(x, 'a ')", "trim(BOTH 'a' FROM x)", "trim(LEADING 'x' FROM x)", "trim(TRAILING FROM x)", "trim(FROM x)",
    "trim(x, 'a')", "substring(x, 1, 2)", "substring(x, 0, 2)", "substring(x, -2)", "substring(x, -5, 4)", "substring(x, -2, 1)",
    "substring(x, 2)", "substr(x, 2, 100)", "substring(x FROM 2 FOR 3)", "substring(x, 1, 0)", "substring(x, 1, -1)", "substring(x, i)",
    "substring(x, t)", "substring(x, i, j)", "substring(x, -2147483648, 2147483647)", "substring(x, 2147483647, "
                                                                                      "2147483647)",
    "substring(x, -3, 2147483647)", "left(x, 2)", "left(x, -1)", "left(x, i)", "right(x, 2)", "right(x, 0)", "right(x, -1)",
    "concat(x, y)", "concat(x, '-', y)", "concat(x)", "concat(i, '-', b)", "concat(p, x)", "concat(n, x)", "concat(u, "
                                                                                                           "x)", "concat(h, h)",
    "concat(x, CAST(i / j AS int))", "concat_ws('-', x, y)", "concat_ws(',', x)", "concat_ws('', x, y, h)", "concat_ws(x, y)",
    "replace(x, 'a', 'b')", "replace(x, 'a')", "replace(x, '', 'b')", "replace(x, 'aa', '')", "replace(x, ',,', "
                                                                                              "'😀')", "lpad(x, 5)",
    "lpad(x, 5, 'xy')", "rpad(x, 5, 'xy')", "lpad(x, 2, 'z')", "lpad(x, 0)", "lpad(x, -1, 'z')", "rpad(x, 4, '')", "lpad(x, 7, '😀é')",
    "rpad(h, 3)", "repeat(x, 3)", "repeat(x, 0)", "repeat(x, -1)", "instr(x, 'b')", "instr(x, '')", "instr(x, 'a😀')",
    "instr(x, y)", "locate('b', x)", "locate('a', x, 2)", "locate('', x, 3)", "locate('', x)", "position('b' IN x)", "position('b', x)",
    "position('b', x, 2)", "split_part(x, ',', 1)", "split_part(x, ',', 3)", "split_part(x, ',', -1)", "split_part(x, "
                                                                                                       "',', 9)",
    "split_part(x, ',', -9)", "split_part(x, 'a', 2)", "split(x, ',')", "split(x, ' ')", "split(x, 'b')", "initcap(x)",
    "locate('a', x, 0)", "x || y", "x || '-' || y", "x || 'a' = 'aa'", "i + j || x", "x || y LIKE 'a%'", "'a' || x || "
                                                                                                         "'b'",
    "i::string || x", "'a' || NULL", "x || i", "x || CAST(i / j AS int)",
]  # fmt: skip

NUMBERS = [
    "abs(i)", "abs(t)", "abs(b)", "abs(d)", "abs(f)", "abs(n)", "floor(d)", "floor(f)", "floor(i)", "floor(b)", "floor(n)", "floor(m)",
    "ceil(d)", "ceil(f)", "ceiling(n)", "ceil(o)", "round(d)", "round(d, 2)", "round(d, 1)", "round(n)", "round(n, "
                                                                                                         "1)", "round(n, 5)",
    "round(o, 3)", "round(i)", "round(i, 2)", "round(f, 1)", "round(m)", "round(e, 15)", "sign(d)", "signum(i)", "sign(n)", "sign(f)",
    "sqrt(d)", "sqrt(i)", "sqrt(f)", "sqrt(n)", "mod(i, j)", "mod(d, e)", "pmod(i, j)", "pmod(i, 7)", "pmod(d, e)", "pmod(b, c)",
    "pmod(t, s)", "pmod(i, -3)", "pmod(t, t)", "i div j", "b div c", "b div -1", "t div 2", "negative(i)", "i div 0", "power(d, 2)",
    "abs(i - j)", "abs(k)", "pmod(f, g)", "pmod(i, d)",
]  # fmt: skip

DATES = [
    "datepart('month', u)", "datepart('year', w)",
    "concat_ws('-', x, y)", "concat_ws(',', x)", "abs(t)", "floor(n)", "floor(m)", "round(n)", "round(n, 1)", "ceil(n)", "ceil(o)",
    "round(m)", "concat(n, x)", "concat(u, x)", "concat(w, x)", "concat(o, x)", "year(u)", "year(w)", "month(u)", "month(w)", "day(u)",
    "dayofmonth(w)", "quarter(u)", "quarter(w)", "dayofweek(u)", "weekday(w)", "dayofyear(u)", "weekofyear(u)", "weekofyear(w)",
    "hour(w)", "minute(w)", "second(w)", "hour(u)", "extract(YEAR FROM u)", "extract(dow FROM w)", "extract(DOY FROM "
                                                                                                   "w)",
    "extract(WEEK FROM w)", "extract(HOUR FROM w)", "date_part('month', w)", "extract(second from w)", "date_part('DAYOFWEEK', u)",
    "extract(day FROM u)", "year(date_add(u, 10000000))", "month(date_add(u, 1000000000))", "dayofyear(date_sub(u, "
                                                                                            "2000000))",
    "weekofyear(date_add(u, 10000000))", "quarter(date_sub(u, 2000000))", "date_trunc('year', w)", "date_trunc('MM', "
                                                                                                   "w)",
    "date_trunc('week', w)", "date_trunc('QUARTER', w)", "date_trunc('day', w)", "date_trunc('HOUR', w)", "date_trunc('minute', w)",
    "date_trunc('SECOND', w)", "date_trunc('millisecond', w)", "date_trunc('microsecond', w)", "date_trunc('month', u)",
    "date_trunc('bad', w)", "trunc(u, 'YEAR')", "trunc(u, 'week')", "trunc(u, 'MM')", "trunc(w, 'Q')", "trunc(w, "
                                                                                                       "'quarter')",
    "trunc(u, 'yy')", "date_add(u, 1)", "date_add(u, i)", "date_add(u, t)", "date_sub(u, j)", "date_sub(u, 40)", "datediff(u, v)",
    "datediff(w, z)", "date_diff(u, w)", "add_months(u, 1)", "add_months(u, -13)", "add_months(u, s)", "add_months(u, "
                                                                                                       "i)", "last_day(u)",
    "last_day(w)", "to_date(w)", "to_date(x)", "to_date(u)",
    "to_timestamp(u)", "to_timestamp(x)", "dateadd(u, 2)", "date_add(w, 1)", "date_add(k, 1)", "u + 1", "u - 1", "1 + "
                                                                                                                 "u", "u + i",
    "u - t", "u + INTERVAL 1 DAY", "u - INTERVAL 2 WEEKS", "u + INTERVAL '1' MONTH", "u - INTERVAL 1 YEAR", "w + "
                                                                                                            "INTERVAL "
                                                                                                            "1 DAY",
    "w - INTERVAL 1 HOUR", "w + INTERVAL 10 MINUTES", "w - INTERVAL '30' SECOND", "w + INTERVAL 1 MONTH", "w - "
                                                                                                          "INTERVAL "
                                                                                                          "13 MONTHS",
    "u + INTERVAL 2 HOURS", "w - INTERVAL 1 DAY 2 HOURS", "w + INTERVAL 1 WEEK", "w + INTERVAL '-1' DAY", "u - v", "w "
                                                                                                                   "- "
                                                                                                                   "z",
    "INTERVAL 1 DAY + u", "w + INTERVAL -3 DAY", "w - INTERVAL 4 YEARS", "u + INTERVAL 1 QUARTER", "w + INTERVAL 1 "
                                                                                                   "DAY + INTERVAL 2 "
                                                                                                   "HOUR",
    "date_add(u, 2147483647) + INTERVAL 100 YEAR", "unix_timestamp(w)", "unix_timestamp(u)", "to_unix_timestamp(w)", "unix_seconds(w)",
    "unix_millis(w)", "unix_micros(w)", "unix_date(u)", "timestamp_seconds(i)", "timestamp_seconds(b)",
    "timestamp_millis(b)", "timestamp_micros(b)", "timestamp_millis(i)", "unix_timestamp(x)", "unix_timestamp()", "current_date()",
    "current_date", "now()",
]  # fmt: skip

CASTS = [
    "CAST(w AS date)", "CAST(u AS timestamp)", "CAST(u AS string)", "CAST(w AS string)", "CAST(x AS date)", "CAST(x "
                                                                                                            "AS "
                                                                                                            "timestamp)",
    "CAST(w AS bigint)", "CAST(w AS int)", "CAST(w AS double)", "CAST(i AS timestamp)", "CAST(b AS timestamp)", "CAST(x AS double)",
    "CAST(x AS float)", "CAST(x AS boolean)", "CAST(n AS int)", "CAST(n AS tinyint)", "CAST(o AS bigint)", "CAST(n AS "
                                                                                                           "decimal(8,1))",
    "CAST(o AS decimal(10,2))", "CAST(n AS decimal(10,0))", "CAST(n AS string)", "CAST(o AS string)", "CAST(o AS "
                                                                                                      "double)",
    "CAST(n AS boolean)", "CAST(d AS string)", "CAST(CAST(o AS decimal(30,10)) AS double)", "date(x)", "timestamp(u)", "string(w)",
    "CAST(date_add(u, 10000000) AS string)", "CAST(date_sub(u, 1000000) AS string)", "CAST(timestamp_micros(b) AS "
                                                                                     "string)",
    "CAST(timestamp_micros(b) AS date)", "CAST(date_add(u,i) AS timestamp)", "string(u)", "float(x)", "u > TIMESTAMP "
                                                                                                      "'2020-01-01'",
    "w > '2020-01-01'", "w = '2026-01-01 00:00:00'", "w BETWEEN '1969-01-01' AND '2026-01-01 00:00:00.000001'", "w > "
                                                                                                                "u", "u = w",
    "w >= TIMESTAMP '2020-02-29 23:00:00.12'", "w IN ('2026-01-01')", "TIMESTAMP '2020-01-01T00:00:00Z'", "TIMESTAMP "
                                                                                                          "'2020-01-01 00:00'",
    "coalesce(u, w)", "n + 1", "d + n", "o > d", "o * 2",
]  # fmt: skip

NESTED = [
    "st.a", "st.b", "ST.B", "st.c.d", "st.c", "st.x", "mp['a']", "mp['zz']", "mp[x]", "mq[1]", "mq[2L]", "element_at(mp, 'b')",
    "element_at(mq, 1)", "ai[0]", "ai[1]", "ai[i]", "ai[-1]", "element_at(ai, 1)", "element_at(ai, -1)", "element_at(ai, 0)",
    "element_at(ax, i)", "get(ai, 1)", "get(ai, i)",
    "get(ai, -1)", "size(ai)", "size(mp)", "cardinality(ax)", "array_size(ai)", "array_contains(ai, 1)", "array_contains(ax, 'a')",
    "array_contains(ad, 1.5D)", "array_contains(ad, 0D)", "array_contains(ai, NULL)", "array_contains(ai, 1L)", "struct(i, x)",
    "struct(i AS a, x AS b)", "named_struct('a', i, 'b', x)", "struct(i + 1)", "rs[0].a", "rs[0]", "struct(i, x).i", "split(x, ',')[0]",
    "element_at(split(x, ','), -1)", "size(split(x, ','))", "st.a + 1", "upper(st.b)", "st IS NULL", "st.c IS NULL", "coalesce(st.a, 0)",
    "mp IS NOT NULL", "st = st", "CASE WHEN p THEN st END", "struct(st, ai)", "get(ax, 0)", "mp.a", "ai[0] IS NULL", "get(rs, 0).a",
    "size(get(rs,0))", "array_contains(ad, 1)", "rs.a",
]  # fmt: skip

TOGETHER = [
    "n * 5L", "n * CAST(5 AS bigint)", "n + 5L", "n + 5", "n = 5L", "n * 1.5BD", "n * 5S", "5L + n", "w IN "
                                                                                                     "('2026-01-01')",
    "date_add(u, 2147483000) + INTERVAL 1 YEAR", "array_contains(ad, 1.5D)", "array_contains(ad, 0D)", "mq[2L]", "rs[0].a", "rs[0]",
    "get(rs, 0).a", "element_at(rs, 1).a", "(i / k) IS NULL", "(i / 0) IS NULL", "(k / 0) IS NULL", "(1 / k) IS NOT "
                                                                                                    "NULL",
    "CAST(h AS int) IS NULL", "coalesce(k / 0, 1)", "i / j = i / j", "i / j <=> i / j", "i / j <=> j / i",
    "CASE WHEN i / j > 1 THEN b ELSE b END", "p OR (p AND i / j > 1)", "(CASE WHEN i / j > 1 THEN 1 ELSE 2 END) = 3",
    "(CASE WHEN i / j > 1 THEN 1 ELSE 2 END)", "if(i / j > 1, 1, 2) + 1", "nullif(i / j, 1)", "sign(n)",
    "NOT x LIKE 'a%'", "x LIKE 'a%' = p", "NOT i BETWEEN 1 AND 3", "i + 1 BETWEEN 0 AND j * 2", "-i + j", "- i * j", "2 - -i",
    "i - j - k", "i / j / k", "i % j % k", "i - j * k", "(i - j) * k", "i = j = p", "i < j = p", "NOT p = q", "NOT p "
                                                                                                              "AND q",
    "p OR q AND NOT p", "p AND q OR i > 2 AND x = 'a'", "x = 'a' IS NULL", "i IN (1, 2) = p", "i + j IN (3)", "-u", "+ i", "i DIV j * k",
    "i * j DIV k", "u + 1 > v", "- -5", "-(-5)", "i::string", "x IS NOT NULL AND y IS NULL", "i BETWEEN 1 AND 3 AND p",
    "i > 1 IS NOT NULL", "NOT NOT p", "i - -1", "hour(w) * 60 + minute(w)", "concat(year(u), '-', month(u))",
    "lpad(string(month(u)), 2, '0')", "CAST(date_trunc('hour', w) AS string)", "floor(d / 10) * 10", "round(d / e, 2)",
    "coalesce(nullif(trim(x), ''), 'none')", "upper(substring(x, 1, 1))", "timestamp_micros(b) + INTERVAL 1 DAY",
    "timestamp_micros(b) + INTERVAL 1 MONTH", "timestamp_micros(b) - INTERVAL 2 HOURS", "date_trunc('year', "
                                                                                        "timestamp_micros(b))",
]  # fmt: skip

ATTEMPTS = [
    "try_cast(x AS int)", "try_cast(x AS tinyint)", "try_cast(x AS bigint)", "try_cast(x AS double)", "try_cast(x AS "
                                                                                                      "float)",
    "try_cast(x AS boolean)", "try_cast(x AS date)", "try_cast(i AS bigint)", "try_cast(b AS int)", "try_cast(h AS "
                                                                                                    "int)",         "try_divide(i, j)", "try_divide(d, e)", "try_divide(1, i)",     "try_cast(concat(x, '0') AS bigint)", "try_cast(w AS string)", "try_cast(x AS timestamp)",     "try_cast(i + j AS bigint)", "try_mod(i, j)", "try_cast(x AS decimal(5,2))",     "TRY_CAST(x AS smallint)", "try_cast(concat('000000000000000000000000', x) "
                                                                     "AS bigint)",
]  # fmt: skip

NULLS = [
    "i % CAST(NULL AS int)", "pmod(i, CAST(NULL AS int))", "i / CAST(NULL AS int)", "i + CAST(NULL AS int)", "i div "
                                                                                                             "CAST(NULL AS int)",
    "x = CAST(NULL AS string)", "x LIKE CAST(NULL AS string)", "coalesce(CAST(NULL AS int), i)", "greatest(i, "
                                                                                                 "CAST(NULL AS int))",
    "concat(x, CAST(NULL AS string))", "u + CAST(NULL AS int)", "i IN (CAST(NULL AS int), 1)", "NOT CAST(NULL AS "
                                                                                               "boolean)",
    "p AND CAST(NULL AS boolean)", "- CAST(NULL AS int)", "date_add(u, CAST(NULL AS int))", "ai[CAST(NULL AS int)]",
    "CASE WHEN p THEN CAST(NULL AS int) END", "substring(x, CAST(NULL AS int))", "abs(CAST(NULL AS int))", "CAST(NULL "
                                                                                                           "AS int) / "
                                                                                                           "i",
    "CAST(NULL AS int) % i", "n + CAST(NULL AS int)", "d % CAST(NULL AS double)", "d > CAST(NULL AS double)",
    "x <=> CAST(NULL AS string)", "i <=> CAST(NULL AS int)", "u < CAST(NULL AS date)", "CAST(NULL AS int) IS NULL",
    "upper(CAST(NULL AS string))", "nullif(1, 1)", "nullif(i, CAST(NULL AS int))", "i + nullif(1, 1)",
    "try_divide(d, CAST(NULL AS double))", "i BETWEEN CAST(NULL AS int) AND 5", "CAST(NULL AS timestamp) + INTERVAL 1 "
                                                                                "DAY",
    "concat_ws('-', x, CAST(NULL AS string))", "struct(i AS a, CAST(NULL AS int) AS b)", "CAST(CAST(NULL AS int) AS "
                                                                                         "bigint)",
    "coalesce(1.5, st.a) <=> (length(x) * k)", "coalesce(d, 1)", "lower(upper(x))",
]  # fmt: skip

FOUND = [
    "1.5 BETWEEN CASE WHEN u IS NULL THEN 0 ELSE 2147483648 END::int AND CAST(true AS int)", "1.5 BETWEEN 2 AND CAST(x AS int)",
    "nullif(1.5 * 0.10, pmod(CAST(mq[1] AS int), coalesce(7, i)))", "try_divide(mp['a'], CAST(upper(h) AS double))",
    "CAST((ai[-1] * nullif(k, k)) AS timestamp)", "t + (1Y + CAST(i AS tinyint))", "j + 1 + i", "j * 2 * i",
    "right(concat_ws('-', h, btrim(ax[0], 'a ')), -1)", "(sign(e) IS NULL) AND (CAST(x AS date) BETWEEN '1970-01-01' "
                                                        "AND (u + 300S))",
    "x = y <=> d < e", "CAST(nullif(ax[0], ax[0]) AS float)", "nullif('12', ax[0]) = 'a'", "right(ax[0], 0) NOT LIKE "
                                                                                           "'%'",
    "(i % datediff(u, u)) + CAST(rtrim('') AS double)", "floor(try_divide(ai[3], try_cast('a' AS double)))",
    "j <> 0 AND (i / j > 2 OR i / j < -1)", "coalesce(coalesce(-1, 7), CAST(o "
                                                                                  "AS int)) + n",
    "unix_seconds(w) = CASE WHEN (ax[0] IS NOT NULL) THEN coalesce(2147483648, i) ELSE coalesce(2147483648, j) END",
]  # fmt: skip
"""Findings of long runs: Catalyst reorders, folds or drops a part of each; most are rejected now."""

WIDE = [
    "- da", "abs(da)", "negative(da)", "- db", "abs(db)", "- dc", "abs(dc)", "- - dc", "-(db + 1)", "abs(db - 1)", "db + 1", "db * 1",
    "db + n", "db - db", "db > dc", "da > n", "da > 1.5", "da > d", "da IN (1, 2.5)", "da = da + 0", "greatest(da, "
                                                                                                     "n)", "least(db, "
                                                                                                           "n)",
    "coalesce(da, n)", "nullif(da, n)", "da BETWEEN 0 AND 5", "da <=> n", "sign(da)", "sqrt(db)", "CAST(da AS double)",
    "- CAST(da AS double)", "CAST(da AS decimal(38,18))", "CAST(db AS decimal(38,2))", "CAST(db AS decimal(38,3))",
    "CAST(dc AS decimal(38,1))", "CAST(b AS decimal(38,10))", "CAST(i AS decimal(38,30))", "round(db, 1)", "floor(db)", "ceil(db)",
    "round(dc)", "CASE WHEN i > 0 THEN da ELSE n END", "CAST(db AS int)", "CAST(db AS bigint)", "CAST(dc AS string)",
    "CAST(db AS string)", "CAST(da AS boolean)", "if(p, - db, db)",
]  # fmt: skip
"""Decimals of many digits."""

LIMITS = [
    "1.7976931348623157e308", "1e-400", "4.9e-324", "2e-324", "1e308 * 10", "CAST('1e400' AS double)", "try_cast('1e400' AS double)",
    "CAST(1e38 AS float)", "CAST('1e39' AS float)", "try_cast('1e39' AS float)", "CAST(d AS float)", "1e400", "-1e400", "1.8e308", "1e400D",
    "1e39F", "CAST(1e39 AS float)", "d > 1e400", "1.7976931348623159e308", "try_cast('epoch' AS date)", "try_cast(' "
                                                                                                        "epoch ' AS "
                                                                                                        "date)",
    "try_cast(trim(' epoch ') AS date)", "try_cast('2020-01-01' AS date)", "try_cast('today' AS date) > '2020-01-01'",
    "try_cast(coalesce('epoch', 'x') AS date)", "CAST('epoch' AS date)", "to_date('epoch')", "u > 'epoch'", "date_add(u, 2147483647)",
    "add_months(u, 2147483647)", "CAST(date_add(u, 2147483000) AS timestamp)", "timestamp_seconds(b)", "timestamp_millis(b)",
    *(
        f"{moment} {sign} INTERVAL {number} {unit}"
        for moment in ("u", "w", "timestamp_micros(b)", "date_add(u, 2147483000)")
        for sign in "+-"
        for number, unit in (
            (178956970, "YEARS"), (178956971, "YEARS"), (999999999, "MONTH"), (999999999, "WEEKS"), (15250284, "WEEKS"),
            (15250285, "WEEKS"), (106751991, "DAYS"), (106751992, "DAYS"), (999999999, "DAY"), (999999999, "HOURS"),
            (999999999, "MINUTES"), (999999999, "SECONDS"),
        )
    ),
]  # fmt: skip
"""Numbers, times and intervals at the ends of their ranges, and beyond."""

CONSTANT_FORMS = [
    "3", "-3", "+3", "(3)", "- +3", "+ +3", "-(3)", "- - 3", "0", "3L", "3S", "3Y", "CAST(3 AS int)", "int(3)", "3::int", "CAST(3 AS bigint)",
    "CAST(3 AS tinyint)", "CAST(300 AS smallint)", "CAST(3.7 AS int)", "CAST('3' AS int)", "CAST(true AS int)", "CAST(3 AS decimal(5,2))",
    "round(3)", "round(3L)", "round(3.5)", "round(3.567, 1)", "floor(3)", "floor(3.5)", "ceil(3)", "ceil(3.5)", "abs(-3)", "abs(3)",
    "negative(3)", "positive(3)", "positive(1.5)", "+1.50", "1.50", "(1 + 2)", "(1.0 + 2)", "coalesce(3)", "coalesce(3, 1)",
    "coalesce(NULL, 3)", "nullif(3, 4)", "nullif(3, 3)", "greatest(1, 3)", "least(4, 3)", "if(1 < 2, 3, 4)", "length('abc')",
    "year(DATE '2020-01-01')", "(7 % 4)", "pmod(7, 4)", "(7 div 2)", "size(split('a,b', ','))", "instr('abc', 'c')",     "try_cast('3' AS int)", "try_cast(3 AS int)", "ifnull(3, 1)", "2147483648", "CAST(NULL AS int)",
]  # fmt: skip

CONSTANTS = [
    form.format(constant)
    for constant in CONSTANT_FORMS
    for form in ("m * {}", "n + {}", "{} - o", "coalesce(m, {})", "n > {}", "m IN ({}, 2)", "i * {}")
]
"""Decimals beside constants of every form: a literal has just its digits, what Catalyst folds those of its type."""

ALL = {
    "core": CORE,
    "choices": CHOICES,
    "patterns": PATTERNS,
    "strings": STRINGS,
    "numbers": NUMBERS,
    "dates": DATES,
    "casts": CASTS,
    "nested": NESTED,
    "together": TOGETHER,
    "attempts": ATTEMPTS,
    "nulls": NULLS,
    "found": FOUND,
    "wide": WIDE,
    "limits": LIMITS,
    "constants": CONSTANTS,
}
"""By subject."""


CONDITIONS = [
    "i / j > 1 AND b > 3", "i / j > b", "b > 3 AND i / j > 1", "i / j > b AND j <> 0", "j <> 0 AND i / j > b", "CAST(x AS int) > i",
    "x IS NOT NULL AND CAST(x AS int) > 1", "i IS NOT NULL AND j / i > b", "i / j > coalesce(b, 1)", "i / j > "
                                                                                                     "length(x)",
    "i = j AND b / i > 1", "i BETWEEN 1 AND 1000 / j", "p AND i / j > b", "(i / j > b) = p", "j > 0 AND i / j > 2 AND "
                                                                                             "d < 1",
    "i / j > 1 OR b > 2", "NOT (i / j > b)", "x LIKE 'a%' AND i / k > 0", "(i / j) IS NOT NULL", "(i / j) IS NULL", "i / j IN (1, b)",
    "i / j <=> b", "i / k > 3", "year(u) > 1900 AND x LIKE '%a%'", "coalesce(p, q)", "upper(x) = 'A' OR mp['a'] > 1",
    "ax[0] LIKE 'a%' AND ('' ILIKE '%b')",
    "(coalesce(1.5, st.a) <=> (length(x) * k)) AND array_contains(ax, ',')", "i / j > 1 AND k > 9999999999",
]  # fmt: skip
"""Filters, many of which can fail on a row that Catalyst drops before."""

WIDENED = ["CAST(i + 1 AS bigint) > 5000000000", "bigint(i + 1) > 5000000000", "bigint(i + 1) <=> 5000000000"]
"""Filters whose values Catalyst does not evaluate, as it knows that no int is as great."""
