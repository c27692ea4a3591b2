/** The places of a plan's nodes and the courses of its arrows, computed by ELK in a worker. */
import type { ELK, ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import Elk from "elkjs/lib/elk-api";
import workerUrl from "elkjs/lib/elk-worker.min.js?url";
import type { Schemas } from "../api/client";

export type Level = "stage" | "operator";
export type Direction = "RIGHT" | "DOWN";

export interface Point {
  x: number;
  y: number;
}

/** A node with its place and size, in px. A stage that shows its operators is the frame around them. */
export interface Placed {
  id: string;
  kind: "stream" | "table" | "stage" | "frame" | "operator";
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** An arrow along its points. */
export interface Course {
  id: string;
  source: string;
  target: string;
  kind: Schemas["Edge"]["kind"];
  points: Point[];
  /** The middle of the room for its text; null where it has none. */
  label: Point | null;
}

/** The whole picture; its upper left corner is at 0, 0. */
export interface Layout {
  width: number;
  height: number;
  nodes: Placed[];
  arrows: Course[];
}

const GAPS: Readonly<Record<string, string>> = {
  "elk.algorithm": "layered",
  "elk.layered.spacing.nodeNodeBetweenLayers": "18",
  "elk.spacing.nodeNode": "22",
  "elk.spacing.edgeNode": "16",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.edgeRouting": "ORTHOGONAL",
  // What is alike stands in the order of the plan.
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.considerModelOrder.components": "MODEL_ORDER",
  "elk.edgeLabels.inline": "false",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
};
/** Between layers whose arrows have no texts. */
const WIDER = { "elk.layered.spacing.nodeNodeBetweenLayers": "38" };
const IN_FRAME = "[top=70,left=16,bottom=16,right=16]";

/** The zoom from which on nodes show all their lines. */
export const READABLE = 0.75;
/** The zoom from which on a stage has room for its figures below its name. */
export const FIGURES = 0.45;
/** The zoom below which nodes have no room for their names. */
export const NAMED = 0.26;
/** The least size of a letter on the screen, in px. */
const SMALLEST_LETTER = 11;
/** The height of a line of a name that has several, in sizes of its letters, and of a node's edges in px. */
const NARROW = 1.1;
const EDGES = 2;
/** The room for the text of an arrow, in px; a graph of more arrows has none. */
const LABEL = { width: 66, height: 18 };
const MOST_LABELS = 120;
/** The zoom to which a picture is made smaller so that its whole width is seen: shapes and states are told apart. */
const SMALLEST = 0.3;
const MARGIN = 20;

let engine: ELK | null = null;

/** Return where everything goes. Without operators at `level` stage; a stage is then a single node. */
export async function layOut(plan: Schemas["Plan"], level: Level, direction: Direction): Promise<Layout> {
  engine ??= new Elk({ workerUrl: new URL(workerUrl, import.meta.url).href });
  const { graph, kinds } = elkGraph(plan, level, direction);
  return read(await engine.layout(graph), kinds);
}

interface Described {
  kind: Placed["kind"];
  label: string;
}

/** Return ELK's description of a plan's graph, and what its nodes are. */
export function elkGraph(
  plan: Schemas["Plan"],
  level: Level,
  direction: Direction,
): { graph: ElkNode; kinds: Map<string, Described> } {
  const kinds = new Map<string, Described>();
  const leaf = (id: string, kind: Placed["kind"], label: string): ElkNode => {
    kinds.set(id, { kind, label });
    return { id, ...sizeOf(kind, label) };
  };
  const operators = new Map(plan.operators.map((operator) => [operator.op_id, operator]));
  const edges = plan.edges.filter((edge) => edge.level === level);
  const used = new Set(edges.flatMap((edge) => [edge.source, edge.target]));
  const stages = plan.stages.map((stage): ElkNode => {
    if (level === "stage") return leaf(stage.node, "stage", stage.stage_name);
    kinds.set(stage.node, { kind: "frame", label: stage.stage_name });
    const inside = stage.operators
      .map((id) => operators.get(id))
      .filter((operator) => operator !== undefined && used.has(operator.node))
      .map((operator) => leaf(operator?.node ?? "", "operator", operator?.title ?? ""));
    const room = sizeOf("stage", stage.stage_name);
    return {
      id: stage.node,
      children: inside,
      layoutOptions: {
        "elk.padding": IN_FRAME,
        "elk.nodeSize.constraints": "MINIMUM_SIZE",
        "elk.nodeSize.minimum": `(${room.width},${room.height})`,
      },
    };
  });
  const children = [
    ...plan.streams.map((stream) => leaf(stream.node, "stream", stream.stream_id)),
    ...plan.tables.filter((table) => used.has(table.node)).map((table) => leaf(table.node, "table", table.table_id)),
    ...stages,
  ];
  const known = new Set(kinds.keys());
  const labelled = edges.length <= MOST_LABELS;
  const graph: ElkNode = {
    id: "plan",
    children,
    edges: edges
      .filter((edge) => known.has(edge.source) && known.has(edge.target))
      .map((edge, index) => ({
        id: `${edge.kind} ${index}`,
        sources: [edge.source],
        targets: [edge.target],
        ...(labelled && edge.kind === "stream" ? { labels: [{ text: " ", ...LABEL }] } : {}),
      })),
    layoutOptions: { ...GAPS, ...(labelled ? {} : WIDER), "elk.direction": direction, "elk.hierarchyHandling": "INCLUDE_CHILDREN" },
  };
  return { graph, kinds };
}

/** The heights of nodes, in px: two lines of a name fit where letters are twice as large, and a stage's figures below. That of a frame is of
 * what stands above its operators. */
const HEIGHT = { stage: 86, frame: 65, other: 64 } as const;

function sizeOf(kind: Placed["kind"], label: string): { width: number; height: number } {
  const aside = kind === "operator" || kind === "stage" ? 34 : 66;
  const width = Math.round(Math.min(Math.max(label.length * 8 + aside, 132), 280));
  if (kind === "stage") return { width: Math.max(width, 210), height: HEIGHT.stage };
  return { width: kind === "table" ? Math.max(width, 168) : width, height: HEIGHT.other };
}

function read(graph: ElkNode, kinds: Map<string, Described>): Layout {
  const nodes: Placed[] = [];
  const walk = (node: ElkNode): void => {
    const { x = 0, y = 0, width = 0, height = 0 } = node;
    const described = kinds.get(node.id);
    if (described) nodes.push({ id: node.id, x, y, width, height, ...described });
    node.children?.forEach(walk);
  };
  graph.children?.forEach(walk);
  return { width: graph.width ?? 0, height: graph.height ?? 0, nodes, arrows: (graph.edges ?? []).map(course) };
}

function course(edge: ElkExtendedEdge): Course {
  const points = (edge.sections ?? []).flatMap((section) => [
    section.startPoint,
    ...(section.bendPoints ?? []),
    section.endPoint,
  ]);
  const kind = edge.id.split(" ")[0] as Course["kind"];
  const [room] = edge.labels ?? [];
  const label = room ? { x: (room.x ?? 0) + (room.width ?? 0) / 2, y: (room.y ?? 0) + (room.height ?? 0) / 2 } : null;
  return { id: edge.id, source: edge.sources[0] ?? "", target: edge.targets[0] ?? "", kind, points, label };
}

/** Return the size of letters at a zoom, before it is applied: none is shown smaller than 11 px. */
export const letters = (size: number, zoom: number): number => Math.max(size, SMALLEST_LETTER / zoom);

/** Return how many lines of its name a node has room for at a zoom, beside `below` lines of other text. */
export function nameLines(kind: keyof typeof HEIGHT, zoom: number, below = 0): number {
  const line = SMALLEST_LETTER * NARROW;
  const room = HEIGHT[kind] * zoom - EDGES - below * line;
  return Math.min(Math.max(Math.floor(room / line), 1), 2);
}

/**
 * Return nodes in the order in which messages flow: each after those before it, and a chain to its end before the next one
 * begins. A frame comes before what is in it.
 */
export function inFlow(nodes: readonly Placed[], arrows: readonly Course[], frameOf: ReadonlyMap<string, string>): Placed[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const waiting = new Map(nodes.map((node) => [node.id, 0]));
  const after = new Map<string, string[]>();
  for (const { source, target } of arrows) {
    after.set(source, [...(after.get(source) ?? []), target]);
    waiting.set(target, (waiting.get(target) ?? 0) + 1);
  }
  const byPlace = (one: Placed, other: Placed): number => one.y - other.y || one.x - other.x;
  const order: Placed[] = [];
  const done = new Set<string>();
  const take = (node: Placed): void => {
    const frame = byId.get(frameOf.get(node.id) ?? "");
    if (frame && !done.has(frame.id)) {
      done.add(frame.id);
      order.push(frame);
    }
    done.add(node.id);
    order.push(node);
  };
  const starts = nodes.filter((node) => node.kind !== "frame" && waiting.get(node.id) === 0).sort(byPlace);
  const left = nodes.filter((node) => node.kind !== "frame").sort(byPlace);
  const walk = (start: Placed): void => {
    const open = [start];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (done.has(node.id)) continue;
      take(node);
      const next: Placed[] = [];
      for (const id of after.get(node.id) ?? []) {
        const remaining = (waiting.get(id) ?? 1) - 1;
        waiting.set(id, remaining);
        const target = byId.get(id);
        if (remaining <= 0 && target) next.push(target);
      }
      open.push(...next.sort((one, other) => byPlace(other, one)));
    }
  };
  for (const start of [...starts, ...left]) walk(start); // what lies in a circle comes at last
  return [...order, ...nodes.filter((node) => !done.has(node.id))];
}

/** Return where a picture is shown at first: all of it if it can be read then, else its width, else its beginning. */
export function firstView(
  layout: { width: number; height: number },
  frame: { width: number; height: number },
): { x: number; y: number; zoom: number } {
  const width = (frame.width - 2 * MARGIN) / layout.width;
  const fitting = Math.min(width, (frame.height - 2 * MARGIN) / layout.height);
  const zoom = Math.min(Math.max(fitting, width < SMALLEST ? READABLE : Math.min(width, READABLE)), 1);
  const start = (room: number, size: number): number => Math.max((room - size * zoom) / 2, MARGIN);
  return { x: start(frame.width, layout.width), y: start(frame.height, layout.height), zoom };
}

/** Return an SVG path along points, with rounded corners. */
export function roundedPath(points: readonly Point[], radius = 8): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${first.x},${first.y}`;
  rest.forEach((corner, index) => {
    const before = points[index] ?? first;
    const next = rest[index + 1];
    if (next === undefined) {
      path += `L${corner.x},${corner.y}`;
      return;
    }
    const enter = towards(corner, before, radius);
    const leave = towards(corner, next, radius);
    path += `L${enter.x},${enter.y}Q${corner.x},${corner.y} ${leave.x},${leave.y}`;
  });
  return path;
}

function towards(from: Point, to: Point, radius: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length === 0) return from;
  const part = Math.min(radius, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}
