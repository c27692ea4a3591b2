import { Component, type ReactNode } from "react";
import { Trouble } from "./answers";

/** Shows a sentence in the place of parts that an error of the page itself has ended. */
export class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error === null ? this.props.children : <Trouble error={this.state.error} />;
  }
}
