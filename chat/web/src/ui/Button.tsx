import type { ComponentProps } from "react";

type Props = ComponentProps<"button"> & { kind?: "main" | "plain" | "danger"; testId?: string };

export function Button({ kind = "plain", testId, className = "", type = "button", ...rest }: Props) {
  return <button type={type} className={`button button-${kind} ${className}`} data-testid={testId} {...rest} />;
}
