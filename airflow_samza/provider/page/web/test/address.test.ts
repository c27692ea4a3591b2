import { describe, expect, it, vi } from "vitest";
import { airflowTask, subjectOf } from "../src/address";
import { parseRoute, routeHash } from "../src/route";

describe("the subject of an address", () => {
  it("may be the map of data", () => {
    expect(subjectOf("/samza/map", "/samza/")).toEqual({ kind: "map" });
  });

  it("is all runs, a Dag run, or a task instance", () => {
    expect(subjectOf("/samza/", "/samza/")).toEqual({ kind: "all" });
    expect(subjectOf("/samza/runs/flights/manual__1", "/samza/")).toEqual({
      kind: "run",
      dagId: "flights",
      runId: "manual__1",
    });
    expect(subjectOf("/air/samza/tasks/flights/r/group.stage/3", "/air/samza/")).toEqual({
      kind: "task",
      dagId: "flights",
      runId: "r",
      taskId: "group.stage",
      mapIndex: 3,
    });
  });
  it("keeps ids that Airflow has put into the address as they are", () => {
    expect(subjectOf("/samza/runs/d/scheduled__2026-01-01T00:00:00+00:00", "/samza/")).toMatchObject({
      runId: "scheduled__2026-01-01T00:00:00+00:00",
    });
    expect(subjectOf("/samza/runs/d/100%", "/samza/")).toMatchObject({ runId: "100%" });
    expect(subjectOf("/samza/runs/d/a%2Bb", "/samza/")).toMatchObject({ runId: "a+b" });
  });
  it("has map index -1 where the task is not mapped", () => {
    expect(subjectOf("/samza/tasks/d/r/t/", "/samza/")).toMatchObject({ mapIndex: -1 });
    expect(subjectOf("/samza/tasks/d/r/t/{MAP_INDEX}", "/samza/")).toMatchObject({ mapIndex: -1 });
  });
});

describe("the address of a task in Airflow", () => {
  it("has the map index of a mapped one", () => {
    vi.stubGlobal("document", { baseURI: "https://airflow.example/samza/" });
    expect(airflowTask("d", "r+1", "g.t")).toBe("https://airflow.example/dags/d/runs/r%2B1/tasks/g.t");
    expect(airflowTask("d", "r", "t", 0)).toMatch(/\/tasks\/t\/mapped\/0$/);
    vi.unstubAllGlobals();
  });
});

describe("routes", () => {
  it("are read as they were written", () => {
    const hash = routeHash("progress", { stage: "a b&c=d/é", node: null, app: undefined });
    expect(parseRoute(hash)).toEqual({ tab: "progress", choices: { stage: "a b&c=d/é" } });
  });
  it("without a known tab have none", () => {
    expect(parseRoute("")).toEqual({ tab: null, choices: {} });
    expect(parseRoute("#/nonsense?x=1").tab).toBeNull();
  });
});
