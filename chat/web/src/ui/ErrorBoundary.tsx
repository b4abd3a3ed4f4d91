// Catches rendering errors, so that one broken part does not break the whole page.
import { Component, type ReactNode } from "react";

type Props = { children: ReactNode; fallback: ReactNode };

export class ErrorBoundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    return this.state.failed ? this.props.fallback : this.props.children;
  }
}
