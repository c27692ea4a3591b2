import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactElement, type ReactNode, useMemo, useRef, useState, useSyncExternalStore } from "react";

/** A column: how wide it is at least (in px), what it shows, and by what it is sorted. */
export interface Column<Row> {
  id: string;
  name: string;
  width: number;
  /** The width on a phone, where it is another one. */
  narrow?: number;
  show: (row: Row) => ReactNode;
  sort?: (row: Row) => number | string | null;
  number?: boolean;
  /** A longer name, on hover and for screen readers. */
  title?: string;
}

interface Sorting {
  column: string;
  down: boolean;
}

interface Properties<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  empty: string;
  chosen?: string | null;
  /** Height in px from which on the table scrolls within itself. */
  tall?: number;
}

const phone = (): MediaQueryList => matchMedia("(max-width: 560px)");

function onPhone(changed: () => void): () => void {
  const asked = phone();
  asked.addEventListener("change", changed);
  return () => asked.removeEventListener("change", changed);
}

const VIRTUAL_FROM = 40;
const ROW = 36;

/** A table; a long one has only those rows in the document that are in sight. */
export function Table<Row>(properties: Properties<Row>): ReactElement {
  const { label, columns, rows, rowKey, empty, chosen = null, tall = 480 } = properties;
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const sorted = useMemo(() => inOrder(rows, columns, sorting), [rows, columns, sorting]);
  const frame = useRef<HTMLDivElement>(null);
  const virtual = sorted.length > VIRTUAL_FROM;
  const virtualizer = useVirtualizer({
    count: sorted.length,
    enabled: virtual,
    estimateSize: () => ROW,
    getScrollElement: () => frame.current,
    overscan: 12,
  });
  const isPhone = useSyncExternalStore(onPhone, () => phone().matches);
  const widthOf = (column: Column<Row>): number => (isPhone ? (column.narrow ?? column.width) : column.width);
  if (rows.length === 0) return <p className="empty">{empty}</p>;
  const seen = virtual ? virtualizer.getVirtualItems().map((item) => item.index) : sorted.map((_, index) => index);
  const before = (seen[0] ?? 0) * ROW;
  const after = (sorted.length - 1 - (seen.at(-1) ?? -1)) * ROW;
  const least = columns.reduce((sum, column) => sum + widthOf(column), 0);
  return (
    <div
      className={virtual ? "frame virtual" : "frame"}
      ref={frame}
      tabIndex={0}
      role="group"
      aria-label={label}
      style={virtual ? { maxHeight: tall } : undefined}
    >
      <table aria-label={label} aria-rowcount={virtual ? sorted.length + 1 : undefined} style={{ minWidth: least }}>
        <colgroup>
          {columns.map((column) => (
            <col key={column.id} style={{ width: widthOf(column) }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.id} column={column} sorting={sorting} sort={setSorting} />
            ))}
          </tr>
        </thead>
        <tbody>
          {virtual && before > 0 ? <Gap height={before} columns={columns.length} /> : null}
          {seen.map((index) => {
            const row = sorted[index];
            if (row === undefined) return null;
            const key = rowKey(row);
            return (
              <tr
                key={key}
                aria-rowindex={virtual ? index + 2 : undefined}
                className={key === chosen ? "chosen" : undefined}
                style={virtual ? { height: ROW } : undefined}
              >
                {columns.map((column) => (
                  <td key={column.id} className={column.number ? "number" : undefined}>
                    {column.show(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {virtual && after > 0 ? <Gap height={after} columns={columns.length} /> : null}
        </tbody>
      </table>
    </div>
  );
}

const Gap = ({ height, columns }: { height: number; columns: number }): ReactElement => (
  <tr aria-hidden="true" className="gap">
    <td colSpan={columns} style={{ height }} />
  </tr>
);

function Heading<Row>({
  column,
  sorting,
  sort,
}: {
  column: Column<Row>;
  sorting: Sorting | null;
  sort: (sorting: Sorting | null) => void;
}): ReactElement {
  const mine = sorting?.column === column.id ? sorting : null;
  const first = column.number === true;
  const next = mine === null ? { column: column.id, down: first } : mine.down === first ? { column: column.id, down: !first } : null;
  return (
    <th
      scope="col"
      className={column.number ? "number" : undefined}
      title={column.title}
      aria-sort={mine === null ? undefined : mine.down ? "descending" : "ascending"}
    >
      {column.sort ? (
        <button type="button" className="sort" onClick={() => sort(next)}>
          {column.name}
          <span aria-hidden="true">{mine === null ? "" : mine.down ? " ↓" : " ↑"}</span>
        </button>
      ) : (
        column.name
      )}
    </th>
  );
}

/** Return rows in the order of a column; what is not known comes last. */
export function inOrder<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sorting: Sorting | null,
): readonly Row[] {
  const by = columns.find((column) => column.id === sorting?.column)?.sort;
  if (by === undefined || sorting === null) return rows;
  const sign = sorting.down ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [left, right] = [by(one), by(other)];
    if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1;
    if (typeof left === "number" && typeof right === "number") return sign * (left - right);
    return sign * String(left).localeCompare(String(right), undefined, { numeric: true });
  });
}
