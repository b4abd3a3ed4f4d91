import type { ComponentProps, ReactNode } from "react";

type Props = Omit<ComponentProps<"button">, "aria-label" | "title"> & {
  label: string;
  children: ReactNode;
  tone?: "ok" | "bad" | "warn" | "accent" | undefined;
  testId?: string;
};

export function IconButton({ label, children, tone, testId, className = "", ...rest }: Props) {
  const tones = tone ? `tone-${tone}` : "";
  return (
    <button type="button" className={`icon-button ${tones} ${className}`} aria-label={label} title={label} data-testid={testId} {...rest}>
      {children}
    </button>
  );
}
