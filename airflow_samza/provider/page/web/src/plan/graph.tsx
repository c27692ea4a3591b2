import {
  BaseEdge,
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  ReactFlowProvider,
  useReactFlow,
  useViewport,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { counted, percent } from "../format";
import { Empty, Trouble } from "../parts/answers";
import { Icon } from "../parts/icons";
import { toneOf } from "../parts/state";
import { type Remark, type Traffic, between } from "./figures";
import {
  type Course,
  type Direction,
  FIGURES,
  type Layout,
  type Level,
  NAMED,
  type Placed,
  type Point,
  READABLE,
  firstView,
  inFlow,
  layOut,
  letters,
  nameLines,
  roundedPath,
} from "./layout";

type GraphNode = Node<{ placed: Placed; remark: Remark | undefined; direction: Direction }>;
type GraphEdge = Edge<{ points: Point[]; label: Point | null; traffic: Traffic | undefined }>;

/** From so many nodes on there is an overview of the graph. */
const MANY = 40;
const LEAST_ZOOM = 0.05;
const MOST_ZOOM = 2;
const STEP = 1.3;

const KIND = { stream: "Stream", table: "Table", stage: "Stage", frame: "Stage", operator: "Operator" } as const;

function Box({ data: { placed, remark, direction }, selected }: NodeProps<GraphNode>): ReactElement {
  const load = remark?.load ? `load ${remark.load}` : "";
  const classes = ["box", placed.kind, selected ? "chosen" : "", remark?.change ?? "", tone(remark), load];
  const told = [placed.label, remark?.line, remark?.figures, remark?.doc].filter(Boolean).join("\n");
  return (
    <div className={classes.join(" ")} style={{ width: placed.width, height: placed.height }} title={told}>
      <Handle type="target" position={direction === "RIGHT" ? Position.Left : Position.Top} isConnectable={false} />
      <div className="name">
        {placed.kind === "stream" || placed.kind === "table" ? <Icon name={placed.kind} /> : null}
        <span>{placed.label}</span>
      </div>
      {remark ? (
        <div className="line">
          {remark.change ? <em>{remark.change} · </em> : null}
          {remark.line}
        </div>
      ) : null}
      {remark?.figures ? <div className="line figures-line">{remark.figures}</div> : null}
      {remark?.percent !== undefined ? (
        <span className="read" aria-hidden="true">
          <span style={{ width: `${remark.percent}%` }} />
        </span>
      ) : null}
      <Handle type="source" position={direction === "RIGHT" ? Position.Right : Position.Bottom} isConnectable={false} />
    </div>
  );
}

const tone = (remark: Remark | undefined): string => (remark?.state ? toneOf(remark.state) : "");

function Arrow({ data, markerEnd }: EdgeProps<GraphEdge>): ReactElement {
  const { points = [], label = null, traffic } = data ?? {};
  return (
    <>
      <BaseEdge path={roundedPath(points)} {...(markerEnd ? { markerEnd } : {})} />
      {label && traffic ? (
        <EdgeLabelRenderer>
          <div
            className={`traffic${traffic.slow ? " slow" : ""}`}
            style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
          >
            {traffic.text}
          </div>
        </EdgeLabelRenderer>
      ) : null}
    </>
  );
}

const BOXES = { box: Box };
const ARROWS = { arrow: Arrow };

/** Return the graph's nodes, in the order in which Tab reaches them. */
function nodesOf(
  placed: readonly Placed[],
  remarks: ReadonlyMap<string, Remark>,
  chosen: string | null,
  direction: Direction,
): GraphNode[] {
  return placed.map((node) => {
    const remark = remarks.get(node.id);
    const words = [KIND[node.kind], node.label, remark?.line, remark?.figures, remark?.change, remark?.doc];
    return {
      id: node.id,
      type: "box",
      position: { x: node.x, y: node.y },
      width: node.width,
      height: node.height,
      zIndex: node.kind === "frame" ? 0 : 2,
      data: { placed: node, remark, direction },
      selected: node.id === chosen,
      ariaLabel: words.filter(Boolean).join(", "),
    };
  });
}

function edgesOf(arrows: readonly Course[], traffic: ReadonlyMap<string, Traffic>): GraphEdge[] {
  return arrows.map(({ id, source, target, kind, points, label }) => {
    const found = traffic.get(between(source, target));
    return {
      id,
      source,
      target,
      type: "arrow",
      className: found?.slow ? `${kind} slow` : kind,
      zIndex: 1,
      focusable: false,
      markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: found?.slow ? "var(--warn)" : "var(--arrow)" },
      data: { points, label, traffic: found },
    };
  });
}

/** Return whether a node is wholly within the frame. */
function isInSight(flow: ReactFlowInstance<GraphNode, GraphEdge>, frame: HTMLElement | null, node: Placed): boolean {
  if (frame === null) return false;
  const { x, y, zoom } = flow.getViewport();
  const left = node.x * zoom + x;
  const top = node.y * zoom + y;
  const fits = left >= 0 && left + node.width * zoom <= frame.clientWidth;
  return fits && top >= 0 && top + node.height * zoom <= frame.clientHeight;
}

interface Drawn {
  plan: Schemas["Plan"];
  level: Level;
  direction: Direction;
  remarks: ReadonlyMap<string, Remark>;
  traffic: ReadonlyMap<string, Traffic>;
  chosen: string | null;
  choose: (node: string | null) => void;
}

/** A plan drawn; a node that is pressed is chosen. */
export function Graph(drawn: Drawn): ReactElement {
  const { plan, level, direction } = drawn;
  const layout = useQuery({
    queryKey: ["layout", plan.run, plan.generation, plan.fingerprint, level, direction],
    queryFn: () => layOut(plan, level, direction),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  if (layout.error) return <Trouble error={layout.error} />;
  if (layout.data === undefined) return <Empty>Laying out the graph.</Empty>;
  return (
    <ReactFlowProvider>
      <Canvas {...drawn} layout={layout.data} />
    </ReactFlowProvider>
  );
}

function Canvas({ plan, direction, remarks, traffic, chosen, choose, layout }: Drawn & { layout: Layout }): ReactElement {
  const [flow, setFlow] = useState<ReactFlowInstance<GraphNode, GraphEdge> | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const { zoom } = useViewport();
  const placed = useMemo(() => {
    const frames = plan.stages.flatMap((stage) => stage.operators.map((id) => [`operator:${id}`, stage.node] as const));
    return inFlow(layout.nodes, layout.arrows, new Map(frames));
  }, [plan, layout]);
  const nodes = useMemo(() => nodesOf(placed, remarks, chosen, direction), [placed, remarks, chosen, direction]);
  const edges = useMemo(() => edgesOf(layout.arrows, traffic), [layout, traffic]);
  useEffect(() => {
    if (flow === null) return;
    const room = frame.current?.getBoundingClientRect() ?? { width: 800, height: 500 };
    void flow.setViewport(firstView(layout, room));
  }, [flow, layout]);
  useEffect(() => {
    const sought = layout.nodes.find((node) => node.id === chosen);
    if (flow === null || sought === undefined || isInSight(flow, frame.current, sought)) return;
    void flow.setCenter(sought.x + sought.width / 2, sought.y + sought.height / 2, { zoom: Math.max(flow.getZoom(), 0.8) });
  }, [flow, layout, chosen]);

  /** Go along an arrow, or against it, by the arrow keys. */
  const follow = (event: KeyboardEvent): void => {
    const forth = event.key === "ArrowRight" || event.key === "ArrowDown";
    if (!forth && event.key !== "ArrowLeft" && event.key !== "ArrowUp") return;
    const from = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node")?.dataset.id;
    const arrow = layout.arrows.find((one) => (forth ? one.source : one.target) === from);
    const next = layout.nodes.find((node) => node.id === (forth ? arrow?.target : arrow?.source));
    if (flow === null || next === undefined) return;
    event.preventDefault();
    if (!isInSight(flow, frame.current, next)) {
      void flow.setCenter(next.x + next.width / 2, next.y + next.height / 2, { zoom: flow.getZoom() });
    }
    requestAnimationFrame(() => frame.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(next.id)}"]`)?.focus());
  };

  const label = `Graph of ${counted(plan.stages.length, "stage")}, ${counted(plan.streams.length, "stream")}`;
  const shown = zoom < NAMED ? "shapes" : zoom < FIGURES ? "names" : zoom < READABLE - 0.01 ? "names few" : "lines";
  const figures = shown === "names few" ? 1 : 0;
  const sizes = {
    "--name": `${letters(13, zoom)}px`,
    "--line-size": `${letters(12, zoom)}px`,
    "--name-lines": nameLines("other", zoom),
    "--stage-lines": nameLines("stage", zoom, figures),
    "--frame-lines": nameLines("frame", zoom, figures),
  };
  return (
    <>
      <div
        className={`graph ${shown}${sizes["--name-lines"] === 1 ? " single" : ""}`}
        style={{ height: layout.height + 60, ...sizes }}
        ref={frame}
        role="group"
        aria-label={label}
        aria-describedby="graph-help"
        onKeyDown={follow}
      >
        <p id="graph-help" className="unseen">
          Tab goes from node to node as messages flow, the arrow keys along an arrow, Enter shows a node's details. The view
          “Table” has the same as tables.
        </p>
        <ReactFlow
          aria-label={label}
          nodes={nodes}
          edges={edges}
          nodeTypes={BOXES}
          edgeTypes={ARROWS}
          onInit={setFlow}
          onNodesChange={(changes) => {
            const selections = changes.filter((change) => change.type === "select");
            const picked = selections.find((change) => change.selected);
            if (picked) choose(picked.id);
            else if (selections.some((change) => change.id === chosen)) choose(null);
          }}
          onPaneClick={() => choose(null)}
          onlyRenderVisibleElements={nodes.length > 150}
          nodesDraggable={false}
          nodesConnectable={false}
          edgesFocusable={false}
          elevateNodesOnSelect={false}
          deleteKeyCode={null}
          minZoom={LEAST_ZOOM}
          maxZoom={MOST_ZOOM}
          proOptions={{ hideAttribution: true }}
          preventScrolling={false}
          zoomOnScroll={false}
          panOnScroll={false}
        />
      </div>
      <Tools many={nodes.length > MANY} zoom={zoom} />
    </>
  );
}

/** The buttons of the graph and its overview, beside it and never upon it. */
function Tools({ many, zoom }: { many: boolean; zoom: number }): ReactElement {
  const flow = useReactFlow<GraphNode, GraphEdge>();
  return (
    <div className="graph-tools">
      <div className="toolbar" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom out" disabled={zoom <= LEAST_ZOOM} onClick={() => void flow.zoomTo(zoom / STEP)}>
          −
        </button>
        <span className="quiet fine zoom">{percent(Math.round(zoom * 100))}</span>
        <button type="button" aria-label="Zoom in" disabled={zoom >= MOST_ZOOM} onClick={() => void flow.zoomTo(zoom * STEP)}>
          +
        </button>
        <button type="button" onClick={() => void flow.fitView()}>
          Whole graph
        </button>
      </div>
      {many ? (
        <MiniMap<GraphNode> pannable zoomable ariaLabel="Overview of the graph" nodeClassName={(node) => node.data.placed.kind} />
      ) : null}
    </div>
  );
}
