import { describe, expect, it } from "vitest";
import type { Schemas } from "../src/api/client";
import { between, loadOf, remarksOf, trafficOf } from "../src/plan/figures";
import { type Placed, elkGraph, inFlow, letters, nameLines } from "../src/plan/layout";

const stage = (more: Partial<Schemas["Stage"]>): Schemas["Stage"] =>
  ({
    stage_id: "count",
    state: "running",
    tasks: 4,
    at_work: 3.5,
    bound: "tasks",
    percent_read: 40,
    now: { read: 120, sent: 12, seconds: 30 },
    seconds_left: 65,
    lag: 7_800,
    read: 5_200,
    sent: 520,
    waits: null,
    inputs: [{ stream_id: "views", lag: 7_800, read: 5_200, percent_read: 40 }],
    ...more,
  }) as Schemas["Stage"];

const plan = {
  stages: [{ node: "stage:count", stage_id: "count", stage_name: "count", task_count: 4, operators: ["a"], outputs: ["counts"] }],
  operators: [{ node: "operator:a", op_id: "a", title: "map", op: "map", engine: "python", doc: "Counts." }],
  streams: [{ node: "stream:views", stream_id: "views", partitions: 4, bounded: true, doc: null }],
  tables: [],
  edges: [
    { source: "stream:views", target: "stage:count", level: "stage", kind: "stream" },
    { source: "stage:count", target: "stream:counts", level: "stage", kind: "stream" },
  ],
} as unknown as Schemas["Plan"];

const progress = (one: Schemas["Stage"], bottleneck: string | null = null) =>
  ({ stages: [one], bottleneck }) as unknown as Schemas["Progress"];

describe("the figures on a graph", () => {
  it("a running stage has how much it has read, its rate and the time left", () => {
    const found = remarksOf(plan, progress(stage({}), "count"), null).get("stage:count");
    expect(found?.line).toBe("4 tasks · running · busy 88 %");
    expect(found?.figures).toBe("bottleneck · 40 % · 120/s · 1 min 5 s left");
    expect(found?.load).toBe("busy");
    expect(found?.percent).toBe(40);
  });

  it("a stage that has not begun says why, and has no figures", () => {
    const waits = "Waits for the stage views.";
    const found = remarksOf(plan, progress(stage({ state: "not started", waits })), null).get("stage:count");
    expect(found?.line).toBe(`4 tasks · not started · ${waits}`);
    expect(found?.figures).toBe("");
    expect(found?.percent).toBeUndefined();
  });

  it("an operator has its description", () => {
    expect(remarksOf(plan, undefined, null).get("operator:a")?.doc).toBe("Counts.");
  });

  it("a stage that has read all that there is waits", () => {
    expect(loadOf(stage({ bound: "producer" }))).toEqual({ load: "idle", text: "waits for its producer" });
    expect(loadOf(stage({ state: "succeeded" }))).toBeUndefined();
    expect(loadOf(stage({ at_work: null, bound: null }))).toBeUndefined();
  });

  it("arrows have the lag of their reader and the rate of their writer", () => {
    const traffic = trafficOf(plan, progress(stage({}), "count"));
    expect(traffic.get(between("stream:views", "stage:count"))).toEqual({ text: "lag 7,800", slow: true });
    expect(traffic.get(between("stage:count", "stream:counts"))).toEqual({ text: "12/s", slow: false });
  });

  it("arrows of a stage that has ended have counts, and none of one that has not begun", () => {
    const ended = trafficOf(plan, progress(stage({ state: "succeeded", now: null, lag: 0 })));
    expect(ended.get(between("stream:views", "stage:count"))?.text).toBe("5,200");
    expect(ended.get(between("stage:count", "stream:counts"))?.text).toBe("520");
    expect(trafficOf(plan, progress(stage({ state: "not started" }))).size).toBe(0);
  });
});

describe("the letters of a graph", () => {
  it("are never smaller than 11 px on the screen", () => {
    for (const zoom of [0.26, 0.5, 0.75, 1, 2]) expect(letters(12, zoom) * zoom).toBeGreaterThanOrEqual(11);
  });
});

describe("the order of nodes for the keyboard", () => {
  const node = (id: string, y: number, kind: Placed["kind"] = "stream"): Placed => ({
    ...{ id, kind, label: id, x: 0, y, width: 1, height: 1 },
  });
  const arrow = (source: string, target: string) =>
    ({ id: source + target, source, target, kind: "stream", points: [], label: null }) as const;

  it("goes along a chain to its end before the next one begins", () => {
    const nodes = [node("b1", 9), node("a1", 0), node("a3", 0), node("a2", 0), node("b2", 9)];
    const arrows = [arrow("a1", "a2"), arrow("a2", "a3"), arrow("b1", "b2")];
    expect(inFlow(nodes, arrows, new Map()).map((one) => one.id)).toEqual(["a1", "a2", "a3", "b1", "b2"]);
  });

  it("comes to a node after all before it, and to a frame before what is in it", () => {
    const nodes = [node("join", 1), node("x", 0), node("y", 2), node("f", 0, "frame")];
    const order = inFlow(nodes, [arrow("x", "join"), arrow("y", "join")], new Map([["join", "f"]]));
    expect(order.map((one) => one.id)).toEqual(["x", "y", "f", "join"]);
  });

  it("has every node of a circle once", () => {
    const order = inFlow([node("x", 0), node("y", 1)], [arrow("x", "y"), arrow("y", "x")], new Map());
    expect(order.map((one) => one.id)).toEqual(["x", "y"]);
  });
});

describe("the room for texts of arrows", () => {
  it("is there for streams, unless there are too many", () => {
    const labelled = (many: number) => {
      const edges = Array.from({ length: many }, () => ({ ...plan.edges[0] }));
      const { graph } = elkGraph({ ...plan, edges } as Schemas["Plan"], "stage", "RIGHT");
      return graph.edges?.filter((edge) => edge.labels).length;
    };
    expect(labelled(3)).toBe(3);
    expect(labelled(500)).toBe(0);
  });
});

describe("the name of a node", () => {
  it("has a second line where two of the smallest letters fit", () => {
    expect(nameLines("other", 0.42)).toBe(2);
    expect(nameLines("other", 0.3)).toBe(1);
    expect(nameLines("stage", 0.47, 1)).toBe(2);
    expect(nameLines("stage", 0.3)).toBe(1);
    for (const kind of ["stage", "frame", "other"] as const) expect(nameLines(kind, 0.7)).toBe(2);
  });
});
