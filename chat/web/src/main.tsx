import "./jitless";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { takeTokenFromAddress } from "./access/fragment";
import { checkToken, loadToken, openTokenDialog, useAccess } from "./access/store";
import { onUnauthorized } from "./api/http";
import { App } from "./app/App";
import { watchHistory } from "./app/route";
import { takeInvitationFromAddress } from "./people/invitation";
import { refreshServer, useServer, watchServer } from "./server/store";
import { texts } from "./texts";
import { Button } from "./ui/Button";
import { ErrorBoundary } from "./ui/ErrorBoundary";
import { applyTheme } from "./ui/theme";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./ui/ui.css";

// A secret is removed from the address bar before anything is rendered or requested.
takeTokenFromAddress();
takeInvitationFromAddress();
applyTheme();
loadToken();
onUnauthorized(() => {
  // With accounts, the page asks for a name and a password instead.
  if (!useServer.getState().info?.accounts) openTokenDialog();
  void refreshServer();
});
watchHistory();
// Without this, a file dropped outside every target would replace the page.
for (const type of ["dragover", "drop"]) window.addEventListener(type, (event) => event.preventDefault());
watchServer();
if (useAccess.getState().token) void checkToken();

function Fatal() {
  return (
    <div className="fatal" role="alert">
      <p>{texts.errors.page}</p>
      <Button kind="main" onClick={() => window.location.reload()}>{texts.errors.reload}</Button>
    </div>
  );
}

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <ErrorBoundary fallback={<Fatal />}>
        <App />
      </ErrorBoundary>
    </StrictMode>,
  );
}
