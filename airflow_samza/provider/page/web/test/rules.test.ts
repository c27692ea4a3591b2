import { describe, expect, it } from "vitest";
import { failingFor, nextLook } from "../src/api/looks";
import { splitColumns } from "../src/parts/facts";
import { ADDRESS, webAddress } from "../src/parts/links";
import { inOrder } from "../src/parts/table";
import { firstView, roundedPath } from "../src/plan/layout";
import { themeOf } from "../src/theme";

describe("looks", () => {
  it("come as the server says, and end with the run", () => {
    expect(nextLook(2, null)).toBe(2_000);
    expect(nextLook(0.1, null)).toBe(1_000);
    expect(nextLook(0, null)).toBe(false);
    expect(nextLook(undefined, null)).toBe(false);
  });
  it("come the more seldom the longer they fail, at least every two minutes", () => {
    expect([0, 12_000, 999_999].map((failing) => nextLook(2, failing))).toEqual([5_000, 12_000, 120_000]);
  });
  it("fail since the last that did not, or by how often none came", () => {
    const error = new Error();
    expect(failingFor({ state: { error: null, dataUpdatedAt: 0, errorUpdateCount: 3 } })).toBeNull();
    expect(failingFor({ state: { error, dataUpdatedAt: 1_000, errorUpdateCount: 9 } }, 8_000)).toBe(7_000);
    expect(failingFor({ state: { error, dataUpdatedAt: 0, errorUpdateCount: 3 } })).toBe(20_000);
  });
});

it("columns of a schema are divided at commas outside of types", () => {
  expect(splitColumns("a bigint, b map<string, array<int>>, `c, d` decimal(10,2) not null")).toEqual([
    "a bigint",
    "b map<string, array<int>>",
    "`c, d` decimal(10,2) not null",
  ]);
});

it("links are followed to the web only", () => {
  expect(webAddress("javascript:alert(1)")).toBeNull();
  expect(webAddress("data:text/html,x")).toBeNull();
});

it("addresses of the web in a sentence are found without the mark behind them", () => {
  const parts = "See http://spark:18080/history/1?a=b (or https://x.org/). Not ftp://y.".split(ADDRESS);
  expect(parts.filter((_, place) => place % 2 === 1)).toEqual(["http://spark:18080/history/1?a=b", "https://x.org/"]);
});

it("rows without a value come last, whichever way they are sorted", () => {
  const columns = [{ id: "n", name: "N", width: 1, show: () => null, sort: (row: { n: number | null }) => row.n }];
  const rows = [{ n: 2 }, { n: null }, { n: 10 }];
  const sorted = (down: boolean): unknown[] => inOrder(rows, columns, { column: "n", down }).map((row) => row.n);
  expect(sorted(false)).toEqual([2, 10, null]);
  expect(sorted(true)).toEqual([10, 2, null]);
});

it("corners of arrows are no rounder than their sides are long", () => {
  const path = roundedPath([
    { x: 0, y: 0 },
    { x: 4, y: 0 },
    { x: 4, y: 100 },
  ]);
  expect(path).toBe("M0,0L2,0Q4,0 4,8L4,100");
  expect(roundedPath([])).toBe("");
});

it("the theme is Airflow's, or what the browser prefers", () => {
  expect(themeOf("dark", false)).toBe("dark");
  expect(themeOf("chakra light", true)).toBe("light");
  expect(themeOf("", true)).toBe("dark");
  expect(themeOf("darkness", false)).toBe("light");
});

describe("the first view of a graph", () => {
  it("is all of it, in the middle, where it can be read then", () => {
    expect(firstView({ width: 400, height: 100 }, { width: 1000, height: 500 })).toEqual({ x: 300, y: 200, zoom: 1 });
  });
  it("is its whole width where that can be told apart, however high it is", () => {
    expect(firstView({ width: 1_920, height: 4_000 }, { width: 1000, height: 500 })).toEqual({ x: 20, y: 20, zoom: 0.5 });
  });
  it("is its beginning where it is too long", () => {
    const view = firstView({ width: 9_000, height: 100 }, { width: 1000, height: 500 });
    expect(view.x).toBe(20);
    expect(view.zoom).toBe(0.75);
  });
});
