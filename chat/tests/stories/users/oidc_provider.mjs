// An identity provider whose users sign in without being asked.
//   node oidc_provider.mjs <port> <address of the callback>
// `GET /as?name=…` says who signs in from then on.
import * as oidc from "oidc-provider";

const [port, callback] = process.argv.slice(2);
let current = "ann";

const client = (client_id) => ({ client_id, client_secret: "secret", redirect_uris: [callback] });
const provider = new oidc.Provider(`http://127.0.0.1:${port}`, {
  clients: [client("chat"), client("other")],
  cookies: { keys: ["a key of the test"] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["preferred_username"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, accountId) => ({
    accountId,
    claims: () => ({
      sub: accountId,
      preferred_username: accountId,
      email: `${accountId}@${accountId === "visitor" ? "elsewhere.example" : "corp.example"}`,
      email_verified: accountId !== "liar",
    }),
  }),
});

provider.use(async (context, next) => {
  if (context.path === "/as") {
    current = context.query.name;
    context.body = "";
    return;
  }
  if (!context.path.startsWith("/interaction/")) return next();
  const { prompt, params, session } = await provider.interactionDetails(context.req, context.res);
  let result = { login: { accountId: current } };
  if (prompt.name === "consent") {
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope("openid profile email");
    result = { consent: { grantId: await grant.save() } };
  }
  context.respond = false;
  await provider.interactionFinished(context.req, context.res, result, { mergeWithLastSubmission: true });
});

provider.listen(Number(port), "127.0.0.1");
