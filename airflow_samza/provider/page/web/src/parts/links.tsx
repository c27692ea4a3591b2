import type { AnchorHTMLAttributes, MouseEvent, ReactElement, ReactNode } from "react";
import { type Choices, type Tab, goTo, parentOfSameOrigin, routeHref } from "../route";
import { Icon } from "./icons";

const isPlain = (event: MouseEvent): boolean => !(event.metaKey || event.ctrlKey || event.shiftKey || event.button);

/** A link within the page. */
export function Inside({
  tab,
  choices = {},
  children,
  more = {},
}: {
  tab: Tab | null;
  choices?: Choices;
  children: ReactNode;
  more?: AnchorHTMLAttributes<HTMLAnchorElement>;
}): ReactElement {
  return (
    <a
      {...more}
      href={routeHref(tab, choices)}
      onClick={(event) => {
        if (!isPlain(event)) return;
        event.preventDefault();
        goTo(tab, choices);
      }}
    >
      {children}
    </a>
  );
}

/**
 * A link out of the page: to Airflow's own page (in its window), or to another site (in a tab of its own). Airflow's frame
 * may neither leave itself nor open tabs, so the link is followed in the document around it.
 */
export function Outside({
  href,
  children,
  tabOfItsOwn = false,
}: {
  href: string;
  children: ReactNode;
  tabOfItsOwn?: boolean;
}): ReactElement {
  const target = tabOfItsOwn ? "_blank" : "_top";
  return (
    <a
      href={href}
      target={target}
      rel="noopener noreferrer"
      onClick={(event) => {
        const outer = parentOfSameOrigin();
        if (outer === null || !isPlain(event)) return;
        event.preventDefault();
        const link = outer.document.createElement("a");
        Object.assign(link, { href, target, rel: "noopener noreferrer" });
        link.click();
      }}
    >
      {children}
      <Icon name="out" />
    </a>
  );
}

/** A text with its addresses of the web as links; they end before the mark with which a sentence goes on. */
export function Linked({ children: text }: { children: string }): ReactElement {
  return (
    <>
      {text.split(ADDRESS).map((part, place) => {
        const url = place % 2 === 1 ? webAddress(part) : null;
        return url === null ? part : <Outside key={`${place} ${part}`} href={url} tabOfItsOwn>{part}</Outside>;
      })}
    </>
  );
}

/** An address of the web in a text, as the one group of the expression: with it `split` has addresses at odd places. */
export const ADDRESS = /(https?:\/\/[^\s'"<>()]*[^\s'"<>().,;:!?])/;

/** Where the documentation has more on an error; a link where that is an address of the web. */
export function Entry({ of }: { of: string }): ReactElement {
  return webAddress(of) === of ? <Linked>{of}</Linked> : <code>{of}</code>;
}

/** Return an address if it is one of the web; null for any other scheme, which a link must not follow. */
export function webAddress(text: string): string | null {
  try {
    const url = new URL(text, document.baseURI);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
