/** The logo: a prompt in a box. */
export function Mark({ small = false }: { small?: boolean }) {
  return (
    <svg className={small ? "mark mark-small" : "mark"} viewBox="0 0 32 32" aria-hidden focusable="false">
      <rect width="32" height="32" rx="9" className="mark-box" />
      <path d="M8.5 11l5 5-5 5" className="mark-prompt" />
      <path d="M16.5 21.5h7" className="mark-line" />
    </svg>
  );
}
