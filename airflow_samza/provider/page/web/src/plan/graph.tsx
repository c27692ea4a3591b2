import {
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { counted } from "../format";
import { Empty, Trouble } from "../parts/answers";
import { Icon } from "../parts/icons";
import { toneOf } from "../parts/state";
import { type Course, type Direction, type Level, type Placed, type Point, firstView, layOut, roundedPath } from "./layout";

/** The second line of a node, and the state of a stage or the change of a node since another plan. */
export interface Remark {
  line: string;
  state?: string | undefined;
  change?: string | undefined;
}

type GraphNode = Node<{ placed: Placed; remark: Remark | undefined; direction: Direction }>;
type GraphEdge = Edge<{ points: Point[] }>;

/** From so many nodes on there is an overview of the graph. */
const MANY = 40;

const KIND = { stream: "Stream", table: "Table", stage: "Stage", frame: "Stage", operator: "Operator" } as const;

function Box({ data: { placed, remark, direction }, selected }: NodeProps<GraphNode>): ReactElement {
  const classes = ["box", placed.kind, selected ? "chosen" : "", remark?.change ?? "", tone(remark)];
  return (
    <div className={classes.join(" ")} style={{ width: placed.width, height: placed.height }} title={placed.label}>
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
      <Handle type="source" position={direction === "RIGHT" ? Position.Right : Position.Bottom} isConnectable={false} />
    </div>
  );
}

const tone = (remark: Remark | undefined): string => (remark?.state ? toneOf(remark.state) : "");

function Arrow({ data, markerEnd }: EdgeProps<GraphEdge>): ReactElement {
  return <BaseEdge path={roundedPath(data?.points ?? [])} {...(markerEnd ? { markerEnd } : {})} />;
}

const BOXES = { box: Box };
const ARROWS = { arrow: Arrow };

/** Return the graph's nodes: frames first, so that they lie below what is in them. */
function nodesOf(
  placed: readonly Placed[],
  remarks: ReadonlyMap<string, Remark>,
  chosen: string | null,
  direction: Direction,
): GraphNode[] {
  return placed.map((node) => {
    const remark = remarks.get(node.id);
    const words = [KIND[node.kind], node.label, remark?.line, remark?.state, remark?.change];
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

function edgesOf(arrows: readonly Course[]): GraphEdge[] {
  return arrows.map(({ id, source, target, kind, points }) => ({
    id,
    source,
    target,
    type: "arrow",
    className: kind,
    zIndex: 1,
    focusable: false,
    markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: "var(--arrow)" },
    data: { points },
  }));
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

/** A plan drawn; a node that is pressed is chosen. */
export function Graph({
  plan,
  level,
  direction,
  remarks,
  chosen,
  choose,
}: {
  plan: Schemas["Plan"];
  level: Level;
  direction: Direction;
  remarks: ReadonlyMap<string, Remark>;
  chosen: string | null;
  choose: (node: string | null) => void;
}): ReactElement {
  const layout = useQuery({
    queryKey: ["layout", plan.run, plan.generation, plan.fingerprint, level, direction],
    queryFn: () => layOut(plan, level, direction),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const [flow, setFlow] = useState<ReactFlowInstance<GraphNode, GraphEdge> | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const nodes = useMemo(
    () => nodesOf(layout.data?.nodes ?? [], remarks, chosen, direction),
    [layout.data, remarks, chosen, direction],
  );
  const edges = useMemo(() => edgesOf(layout.data?.arrows ?? []), [layout.data]);
  useEffect(() => {
    if (flow === null || layout.data === undefined) return;
    const room = frame.current?.getBoundingClientRect() ?? { width: 800, height: 500 };
    void flow.setViewport(firstView(layout.data, room));
  }, [flow, layout.data]);
  useEffect(() => {
    const sought = layout.data?.nodes.find((node) => node.id === chosen);
    if (flow === null || sought === undefined || isInSight(flow, frame.current, sought)) return;
    void flow.setCenter(sought.x + sought.width / 2, sought.y + sought.height / 2, { zoom: Math.max(flow.getZoom(), 0.8) });
  }, [flow, layout.data, chosen]);

  if (layout.error) return <Trouble error={layout.error} />;
  if (layout.data === undefined) return <Empty>The graph is being laid out.</Empty>;
  const label = `Graph of ${counted(plan.stages.length, "stage")}, ${counted(plan.streams.length, "stream")}`;
  return (
    <div className="graph" style={{ height: layout.data.height + 90 }} ref={frame} role="group" aria-label={label} aria-describedby="graph-help">
      <p id="graph-help" className="unseen">
        Tab goes from node to node, Enter shows a node's details. The view “Table” has the same as tables.
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
        minZoom={0.05}
        maxZoom={2}
        proOptions={{ hideAttribution: true }}
        preventScrolling={false}
        zoomOnScroll={false}
        panOnScroll={false}
      >
        <Controls showInteractive={false} />
        {nodes.length > MANY ? (
          <MiniMap<GraphNode> pannable zoomable ariaLabel="Overview of the graph" nodeClassName={(node) => node.data.placed.kind} />
        ) : null}
      </ReactFlow>
    </div>
  );
}
