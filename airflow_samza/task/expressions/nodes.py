"""Syntax tree → compiled expression, node by node; a node outside the known list is rejected with a reason."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from airflow_samza.schema import DataType, Schema
from airflow_samza.task.expressions import (
    arithmetic,
    attempts,
    conditionals,
    dates,
    letter_case,
    nested,
    numbers,
    patterns,
    predicates,
    strings,
)
from airflow_samza.task.expressions.attempts import try_cast
from airflow_samza.task.expressions.casts import cast
from airflow_samza.task.expressions.chains import Chain
from airflow_samza.task.expressions.coercion import read_date, read_moment
from airflow_samza.task.expressions.dates import DATE, TIMESTAMP, extract, interval_of, moved_by_days, shifted_by
from airflow_samza.task.expressions.dropped import Guard, folded
from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    DECIDED_AHEAD,
    VOID,
    Expression,
    Function,
    UnsupportedExpression,
    column,
    literal,
)
from airflow_samza.task.expressions.numbers import whole_quotient
from airflow_samza.task.expressions.reading import (
    decimal_type,
    number_or_text,
    only,
    reject_great_float,
    shown,
)
from airflow_samza.task.expressions.tree_facts import bare

DEEPEST = 100
"""Levels to which expressions are nested here: each takes some calls of compiling and of evaluating.

Python's stack has about a thousand.
"""


class UnknownColumn(Exception):
    """An expression names a column that its input does not have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


FUNCTIONS: dict[str, Function] = {
    **attempts.FUNCTIONS,
    **conditionals.FUNCTIONS,
    **dates.FUNCTIONS,
    **letter_case.FUNCTIONS,
    **nested.FUNCTIONS,
    **numbers.FUNCTIONS,
    **patterns.FUNCTIONS,
    **strings.FUNCTIONS,
}
"""Every function of the Arrow subset by its SQL name."""

_SYMBOLS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_PREDICATES = ("Like", "ILike", "Escape", "RegexpLike", "In", "Between", "Is", "Not")
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_LOGIC = {"And": predicates.conjunction, "Or": predicates.disjunction}
_LINKS = ("Add", "Sub", "Mul", *_LOGIC)
"""Operators that are chained without parentheses, a + b + c, and look at all rows of their left operand."""

_BOTH = ("this", "expression")
_KNOWN = {
    **dict.fromkeys(
        (*_SYMBOLS, *_LOGIC, "NullSafeEQ", "NullSafeNEQ", "Is", "Dot", "IntDiv", "Extract", "Escape"), _BOTH
    ),
    **dict.fromkeys(_ARITHMETIC, (*_BOTH, "typed", "safe")),
    **dict.fromkeys(("Like", "ILike"), (*_BOTH, "negate")),
    **dict.fromkeys(("Paren", "Neg", "Not"), ("this",)),
    **dict.fromkeys(("Bracket", "In"), ("this", "expressions")),
    "Between": ("this", "low", "high"),
    "Case": ("this", "ifs", "default"),
    "Cast": ("this", "to", "_type"),
    "DPipe": (*_BOTH, "safe"),
    "If": ("this", "true", "false"),
    "StrPosition": ("this", "substr", "position"),
    "Substring": ("this", "start", "length"),
    "Trim": (*_BOTH, "position"),
    "TryCast": ("this", "to", "_type", "safe"),
}
"""The arguments that are known, by kind of node: one with others is evaluated by Catalyst."""

_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "DATE": "date",
    "TIMESTAMPTZ": "timestamp",
}


class NodeCompiler:
    """Compiles the nodes of a syntax tree for one input schema."""

    def __init__(self, schema: Schema) -> None:
        from sqlglot import exp

        self._exp: Any = exp  # loaded where SQL is compiled, and nowhere else
        self.schema = schema
        self.guard = Guard()
        self._depth = 0

    def compile(self, node: Any) -> Expression:
        """The compiled expression of a node.

        Chains of operators are compiled link after link, however long they are.
        """
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnsupportedExpression(f"it is nested more than {DEEPEST} levels deep")
        links = []
        while type(node).__name__ in _LINKS:
            links.append(node)
            node = node.this
        expression = self._finished(node, self._compiled(node))
        chain = Chain()
        while links:
            node = links.pop()
            link = chain.link(expression, partial(self._linked, node))
            inner = bool(links) and type(node).__name__ in _LOGIC and type(links[-1]).__name__ in _LOGIC
            expression = self._finished(node, link, inner=inner)
            if expression is not link:  # what the chain gave so far has become a constant
                chain = Chain()
        self._depth -= 1
        return expression

    def _finished(self, node: Any, expression: Expression, *, inner: bool = False) -> Expression:
        if (
            not expression.literal
            and not expression.type.children
            and expression.type != VOID
            and self.guard.facts.is_constant(node)
        ):
            expression = folded(expression)
        if expression.literal and expression.value is not None and expression.type.is_integer and not _is_written(node):
            # Beside a decimal a literal has just its digits, but +3, round(3) and CAST(3 AS int) those of their type.
            expression = replace(expression, literal=False)
        self.guard.passed(node, expression, inner=inner)
        return expression

    def _linked(self, node: Any, left: Expression) -> Expression:
        """An operator whose left operand is compiled."""
        word = _checked(node)
        if word in _LOGIC:
            return _LOGIC[word](left, self.compile(node.expression))
        return self._calculated(_ARITHMETIC[word], left, node.expression)

    def _compiled(self, node: Any) -> Expression:
        word = _checked(node)
        if isinstance(node, self._exp.Anonymous):
            return self._function(node)
        if isinstance(node, self._exp.Paren):
            return self.compile(node.this)
        if word in _SYMBOLS:
            return predicates.comparison(_SYMBOLS[word], self._side(node.this), self._side(node.expression))
        if word in _ARITHMETIC:
            return self._linked(node, self.compile(node.this))
        method = getattr(self, f"_{word.lower()}", None)
        if method is None:
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        expression: Expression = method(node)
        return expression

    def _side(self, node: Any) -> Expression:
        """Compile what stands beside a comparison, or before IN, BETWEEN or LIKE.

        No other of them without parentheses, since ranks differ.
        """
        if type(node).__name__ in (*_PREDICATES, *_SYMBOLS, "NullSafeEQ", "NullSafeNEQ", "And", "Or"):
            raise UnsupportedExpression(f"{shown(node.parent)} is ambiguous without parentheses")
        return self.compile(node)

    def _choice(self, branches: list[tuple[Expression, Any]], default: Any) -> Expression:
        """CASE or IF; the values are still nodes."""
        ready = [(condition, self.compile(value)) for condition, value in branches]
        return predicates.chosen(ready, self.compile(default) if default is not None else None)

    def _calculated(self, symbol: str, left: Expression, right: Any) -> Expression:
        if isinstance(right, self._exp.Interval) and symbol in "+-":
            return shifted_by(left, interval_of(right), 1 if symbol == "+" else -1)
        other = self.compile(right)
        return moved_by_days(symbol, left, other) or arithmetic.arithmetic(symbol, left, other)

    def _column(self, node: Any) -> Expression:
        parts = [node.args[name] for name in ("catalog", "db", "table", "this") if node.args.get(name) is not None]
        if not all(isinstance(part, self._exp.Identifier) for part in parts):
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        column = self.named(parts[0].name, alone=len(parts) == 1)
        for part in parts[1:]:
            column = nested.field_of(column, part.name)
        return column

    def named(self, name: str, *, alone: bool = True) -> Expression:
        """The column of a name; ``alone``: the name is not the first part of a longer one."""
        places = [place for place, field in enumerate(self.schema.fields) if field.name.lower() == name.lower()]
        if len(places) > 1:
            raise UnsupportedExpression(f"{name!r} is more than one column when case does not count")
        if not places:
            if not alone:
                raise UnsupportedExpression(f"{name!r} may qualify a column")
            raise UnknownColumn(name)
        field = self.schema.fields[places[0]]
        return column(places[0], field.type, field.nullable)

    def _dot(self, node: Any) -> Expression:
        if not isinstance(node.expression, self._exp.Identifier):
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        field = nested.field_of(self.compile(node.this), node.expression.name)
        if field.fallible and any("struct" in function.name.lower() for function in node.find_all(self._exp.Anonymous)):
            raise UnsupportedExpression("one field is read of a struct whose others can fail, which Catalyst may drop")
        return field

    def _bracket(self, node: Any) -> Expression:
        if len(node.expressions) != 1:
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        return nested.item(self.compile(node.this), self.compile(node.expressions[0]))

    def _extract(self, node: Any) -> Expression:
        return extract(node.name, self.compile(node.expression))

    def _literal(self, node: Any) -> Expression:
        return number_or_text(node, negative=False)

    def _neg(self, node: Any) -> Expression:
        if isinstance(node.this, self._exp.Literal) and not node.this.is_string:
            return number_or_text(node.this, negative=True)  # Spark reads -2147483648 as one int
        if isinstance(node.this, self._exp.Cast) and isinstance(node.this.this, self._exp.Literal):
            raise UnsupportedExpression(f"{shown(node)} may be one literal, which Catalyst tells from a cast")
        return arithmetic.negated(self.compile(node.this))

    def _boolean(self, node: Any) -> Expression:
        return literal(bool(node.this), BOOLEAN)

    def _null(self, node: Any) -> Expression:
        return literal(None, VOID)

    def _nullsafeeq(self, node: Any) -> Expression:
        return predicates.null_safe_equal(self._side(node.this), self._side(node.expression))

    def _nullsafeneq(self, node: Any) -> Expression:
        return predicates.negation(self._nullsafeeq(node))

    def _not(self, node: Any) -> Expression:
        inner = node.this
        if isinstance(inner, self._exp.Is) and isinstance(inner.expression, self._exp.Null):
            _checked(inner)
            return predicates.is_not_null(self.compile(inner.this))
        return predicates.negation(self.compile(inner))

    def _is(self, node: Any) -> Expression:
        if not isinstance(node.expression, self._exp.Null):
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        return predicates.is_null(self.compile(node.this))

    def _in(self, node: Any) -> Expression:
        return predicates.contained(self._side(node.this), [self.compile(choice) for choice in node.expressions])

    def _between(self, node: Any) -> Expression:
        low, high = node.args["low"], node.args["high"]
        is_between = predicates.between(self._side(node.this), self.compile(low), self.compile(high))
        is_constant = self.guard.facts.is_constant
        if is_between.fallible and is_constant(node.this) and (is_constant(low) or is_constant(high)):
            raise UnsupportedExpression(DECIDED_AHEAD)
        return is_between

    def _case(self, node: Any) -> Expression:
        subject = self.compile(node.this) if node.this is not None else None
        branches = []
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            test = self.compile(branch.this)
            branches.append(
                (predicates.comparison("=", subject, test) if subject is not None else test, branch.args["true"])
            )
        return self._choice(branches, node.args.get("default"))

    def _function(self, node: Any) -> Expression:
        name = node.name.lower()
        if name == "struct":
            return self._struct(node)
        function = FUNCTIONS.get(name)
        if function is None:
            raise UnsupportedExpression(f"function {name} is not in the Arrow subset")
        if not function.takes(len(node.expressions)):
            raise UnsupportedExpression(f"{name} with {len(node.expressions)} arguments is not in the Arrow subset")
        operands = node.expressions
        if name in letter_case.FUNCTIONS:
            operands = [self._before_case_changed(operands[0])]
        return function.build(*(self.compile(operand) for operand in operands))

    def _before_case_changed(self, node: Any) -> Any:
        """Catalyst drops an upper or lower below another one, which shows: lower(upper('ß')) stays 'ß'."""
        inner = bare(node)
        if (
            type(inner).__name__ == "Anonymous"
            and inner.name.lower() in letter_case.FUNCTIONS
            and len(inner.expressions) == 1
        ):
            if self.guard.facts.is_constant(inner):
                raise UnsupportedExpression("the case of a constant is changed twice")
            return self._before_case_changed(inner.expressions[0])
        return node

    def _struct(self, node: Any) -> Expression:
        names, values = [], []
        for part in node.expressions:
            is_alias = isinstance(part, self._exp.Alias)
            if not is_alias and (not isinstance(part, self._exp.Column) or part.args.get("table")):
                raise UnsupportedExpression(f"{shown(part)} has no name in struct(…)")
            if is_alias:
                only(part, "this", "alias")
            names.append(part.alias_or_name)
            values.append(self.compile(part.this if is_alias else part))
        return nested.struct_of(names, values)

    def _dpipe(self, node: Any) -> Expression:
        # Spark gives || the rank of + and -, which the reader does not.
        if any(
            isinstance(side, self._exp.Binary) and not isinstance(side, self._exp.DPipe | self._exp.Dot)
            for side in (node.this, node.expression)
        ):
            raise UnsupportedExpression(f"{shown(node)} is ambiguous without parentheses")
        return strings.concat(self.compile(node.this), self.compile(node.expression))

    def _like(self, node: Any) -> Expression:
        return self._matching(node, patterns.like)

    def _ilike(self, node: Any) -> Expression:
        node.set("this", self._before_case_changed(node.this))
        return self._matching(node, patterns.ilike)

    def _regexplike(self, node: Any) -> Expression:
        raise UnsupportedExpression("RLIKE takes Java's regular expressions")

    def _interval(self, node: Any) -> Expression:
        raise UnsupportedExpression("an interval stands alone")

    def _escape(self, node: Any) -> Expression:
        builders = {self._exp.Like: patterns.like, self._exp.ILike: patterns.ilike}
        if type(node.this) not in builders:
            raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
        _checked(node.this)
        return self._matching(node.this, builders[type(node.this)], node.expression)

    def _matching(self, node: Any, build: Any, escape: Any = None) -> Expression:
        parts = (node.expression, escape)
        is_match: Expression = build(self._side(node.this), *(self.compile(part) for part in parts if part is not None))
        return predicates.negation(is_match) if node.args.get("negate") else is_match

    def _trim(self, node: Any) -> Expression:
        position, characters = node.args.get("position"), node.args.get("expression")
        if characters is not None and not position:
            raise UnsupportedExpression("trim is given characters without BOTH, LEADING or TRAILING")
        kernel = {"LEADING": "utf8_ltrim", "TRAILING": "utf8_rtrim"}.get(str(position).upper(), "utf8_trim")
        return strings.trimmed(
            "trim", kernel, *(self.compile(part) for part in (node.this, characters) if part is not None)
        )

    def _substring(self, node: Any) -> Expression:
        parts = (node.this, node.args.get("start"), node.args.get("length"))
        if parts[1] is None:
            raise UnsupportedExpression("substring has no position")
        return strings.substring(*(self.compile(part) for part in parts if part is not None))

    def _strposition(self, node: Any) -> Expression:
        parts = (node.args["substr"], node.this, node.args.get("position"))
        return strings.locate(*(self.compile(part) for part in parts if part is not None))

    def _intdiv(self, node: Any) -> Expression:
        return whole_quotient(self.compile(node.this), self.compile(node.expression))

    def _if(self, node: Any) -> Expression:
        if node.args.get("false") is None:
            raise UnsupportedExpression("IF has two arguments")
        return self._choice([(self.compile(node.this), node.args["true"])], node.args["false"])

    def _cast(self, node: Any) -> Expression:
        name = node.to.this.name if isinstance(node.to.this, self._exp.DataType.Type) else ""
        is_text = isinstance(node.this, self._exp.Literal) and node.this.is_string
        if name == "DATE" and is_text:
            return literal(read_date(node.this.this), DATE)
        if name == "TIMESTAMPTZ" and is_text:
            return literal(read_moment(node.this.this), TIMESTAMP)
        if name == "FLOAT" and isinstance(node.this, self._exp.Literal) and not is_text:
            reject_great_float(node.this)
        return cast(self.compile(node.this), _target(node))

    def _trycast(
        self, node: Any
    ) -> Expression:  # sqlglot's name for a CAST of the Spark dialect; a real TRY_CAST has "safe"
        if not node.args.get("safe"):
            return self._cast(node)
        kind, operand = _target(node), self.compile(node.this)
        if kind.name == "date" and operand.type.name == "string" and self.guard.facts.is_constant(node.this):
            raise UnsupportedExpression(
                "a constant text is tried as a date, and Catalyst knows words such as 'epoch' and 'today'"
            )
        return try_cast(operand, kind)


def _checked(node: Any) -> str:
    """Return the kind of a node, which has no arguments but those that are known here."""
    word = type(node).__name__
    if word in _KNOWN:
        only(node, *_KNOWN[word])
    return word


def _is_written(node: Any) -> bool:
    """Return whether a node is a number as the text has it, perhaps with a minus or in parentheses."""
    node = bare(node)
    kind = type(node).__name__
    return kind == "Literal" or (kind == "Neg" and type(node.this).__name__ == "Literal")


def _target(node: Any) -> DataType:
    from sqlglot import exp

    name = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
    if name == "DECIMAL":
        return decimal_type(node.to)
    if name not in _TYPES or node.to.expressions:
        raise UnsupportedExpression(f"{shown(node)} is evaluated by Catalyst")
    return DataType(_TYPES[name])
