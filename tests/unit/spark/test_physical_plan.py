"""The tree of a physical plan, read from Spark's explanations as Spark 4.2 writes them."""

from __future__ import annotations

import pytest

from airflow_samza.spark.physical_plan import PlanNode, parse_plan

JOINED = """\
== Physical Plan ==
* Project (8)
+- * BroadcastHashJoin Inner BuildRight (7)
   :- * Filter (3)
   :  +- MapInArrow (2)
   :     +- * Range (1)
   +- BroadcastExchange (6)
      +- * Project (5)
         +- * Range (4)


(1) Range [codegen id : 1]
Output [1]: [id#81L]
Arguments: Range (0, 2, step=1, splits=Some(2))

(2) MapInArrow
Input [1]: [id#81L]
Arguments: nothing(id#81L)#83, [country#84], false

(6) BroadcastExchange
Input [2]: [country#89, x#90L]
Arguments: HashedRelationBroadcastMode(List(input[0, string, false]),false), [plan_id=227]
"""

CACHED = """\
== Physical Plan ==
* Filter (5)
+- InMemoryTableScan (1)
      +- InMemoryRelation (2)
            +- MapInArrow (4)
               +- * Range (3)


"""

COLUMN_LIKE_A_TREE = """\
== Physical Plan ==
Exchange (2)
+- MapInArrow (1)


(1) MapInArrow
Input [1]: [a
+- Exchange (7)#81L]

(2) Exchange
Input [4]: [country#84, a b
(3)#85, arr#86]
Arguments: hashpartitioning(country#84, 200), ENSURE_REQUIREMENTS, [plan_id=325]
"""

SUBQUERY = """\
== Physical Plan ==
* Filter (2)
+- MapInArrow (1)


(2) Filter [codegen id : 2]
Condition : (length(country#96) > Subquery scalar-subquery#110, [id=#60])

===== Subqueries =====

Subquery:1 Hosting operator id = 2 Hosting Expression = Subquery scalar-subquery#110, [id=#60]
* HashAggregate (5)
+- Exchange (4)
   +- MapInArrow (3)


(3) MapInArrow
"""


def shape(node: PlanNode) -> object:
    return (node.name, [shape(child) for child in node.children]) if node.children else node.name


def test_both_sides_of_a_join_hang_below_it() -> None:
    source = ("Filter", [("MapInArrow", ["Range"])])
    other = ("BroadcastExchange", [("Project", ["Range"])])
    assert shape(parse_plan(JOINED).root) == ("Project", [("BroadcastHashJoin Inner BuildRight", [source, other])])


def test_what_was_cached_hangs_below_its_scan() -> None:
    assert shape(parse_plan(CACHED).root) == (
        "Filter",
        [("InMemoryTableScan", [("InMemoryRelation", [("MapInArrow", ["Range"])])])],
    )


def test_a_column_whose_name_looks_like_a_node_is_none() -> None:
    plan = parse_plan(COLUMN_LIKE_A_TREE)
    assert shape(plan.root) == ("Exchange", ["MapInArrow"])
    assert plan.root.arguments == "hashpartitioning(country#84, 200), ENSURE_REQUIREMENTS, [plan_id=325]"


def test_subqueries_are_plans_of_their_own() -> None:
    plan = parse_plan(SUBQUERY)
    assert shape(plan.root) == ("Filter", ["MapInArrow"])
    assert [shape(root) for root in plan.subqueries] == [("HashAggregate", [("Exchange", ["MapInArrow"])])]


@pytest.mark.parametrize("text", ["", "== Physical Plan ==\n", "nothing known"])
def test_another_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="in a form that is not known"):
        parse_plan(text)
