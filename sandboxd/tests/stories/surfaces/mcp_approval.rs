//! The user of an MCP client is asked about a host that a command was denied.

use sandbox_api::SandboxId;
use serde_json::{Value, json};

use super::mcp_client::{Called, Mcp, Messages, messages};
use crate::support::harness::{Daemon, Home};
use crate::support::network::network;
use crate::support::sink::{LAN, OPENED, Sink};

/// Leaves a line in a file, and tries until it reaches `a.example`. So an allowed host ends it, and a second run of it
/// would be seen.
const PERSISTENT: &str =
    "echo ran >>runs; for i in $(seq 200); do curl -sf http://a.example/ && exit; sleep 0.1; done; exit 9";

/// Leaves a line in a file, and tries once.
const ONCE: &str = "echo ran >>runs; curl -sSf http://a.example/";

/// A home with names of a host that sandboxes may reach, and of one that they must not.
fn home() -> Home {
    Home::new()
        .set("SANDBOXD_EGRESS_ALLOW_CIDR", &format!("{OPENED}/32"))
        .set("SANDBOXD_EGRESS_HOSTS", &format!("a.example={OPENED},b.example={OPENED},lan.example={LAN}"))
}

/// A conversation whose sandbox may reach nothing, with a client of each era.
struct Conversation<'a> {
    daemon: &'a Daemon,
    client: Mcp,
    is_modern: bool,
    sandbox: SandboxId,
}

/// What the user does.
#[derive(Clone, Copy)]
enum User {
    Accepts(&'static str),
    Declines,
    Cancels,
    NeverAnswers,
}

impl User {
    fn answer(self) -> Option<Value> {
        match self {
            Self::Accepts(scope) => Some(json!({ "action": "accept", "content": { "scope": scope } })),
            Self::Declines => Some(json!({ "action": "decline" })),
            Self::Cancels => Some(json!({ "action": "cancel" })),
            Self::NeverAnswers => None,
        }
    }
}

impl<'a> Conversation<'a> {
    async fn modern(daemon: &'a Daemon, name: &str) -> Self {
        let client = Mcp::of(daemon).with_elicitation().in_session(&format!("modern {name}"));
        Self::new(daemon, client, true).await
    }

    async fn legacy(daemon: &'a Daemon, name: &str) -> Self {
        let client = Mcp::of(daemon).with_elicitation().legacy().await.in_session(&format!("legacy {name}"));
        Self::new(daemon, client, false).await
    }

    async fn new(daemon: &'a Daemon, client: Mcp, is_modern: bool) -> Self {
        let info = client.result("sandbox_info", json!({})).await;
        let sandbox: SandboxId = info["sandbox"].as_str().unwrap().parse().unwrap();
        daemon.client.change_network(&sandbox, &network("allowlist", &[]).unwrap()).await.unwrap();
        Self { daemon, client, is_modern, sandbox }
    }

    /// Runs a command, and answers each question like this. Returns the result, and the questions.
    async fn bash(&self, arguments: Value, user: User) -> (Value, Vec<Value>) {
        let params = json!({ "name": "bash", "arguments": arguments });
        if self.is_modern { self.repeat(params, user).await } else { self.respond(params, user).await }
    }

    /// Repeats a call until its result has no questions.
    async fn repeat(&self, params: Value, user: User) -> (Value, Vec<Value>) {
        let (mut questions, mut repeated) = (Vec::new(), params.clone());
        loop {
            let answer = self.client.ask("tools/call", repeated.clone()).await;
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                return (result.clone(), questions);
            }
            let mut responses = json!({});
            for (key, request) in result["inputRequests"].as_object().unwrap() {
                assert_eq!(request["method"], "elicitation/create");
                questions.push(request["params"].clone());
                if let Some(answer) = user.answer() {
                    responses[key] = answer;
                }
            }
            repeated = params.clone();
            repeated["inputResponses"] = responses;
            repeated["requestState"] = result["requestState"].clone();
        }
    }

    /// Responds to the requests on a call's stream.
    async fn respond(&self, params: Value, user: User) -> (Value, Vec<Value>) {
        let call = self.client.request("tools/call", params).send().await.unwrap();
        let (mut messages, mut questions) = (Messages::of(call), Vec::new());
        loop {
            let message = messages.next_with("id").await;
            if !message["result"].is_null() {
                return (message["result"].clone(), questions);
            }
            assert_eq!(message["method"], "elicitation/create", "{message}");
            questions.push(message["params"].clone());
            if let Some(result) = user.answer() {
                let response = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                assert_eq!(self.client.post(&response).send().await.unwrap().status(), 202);
            }
        }
    }

    /// How often the command was run in the sandbox.
    async fn runs(&self) -> usize {
        self.daemon.output(&self.sandbox, "cat runs").await.lines().count()
    }

    async fn allowed(&self) -> Vec<String> {
        self.daemon.client.get(&self.sandbox).await.unwrap().network.allow.unwrap()
    }
}

/// What the result says about the only denied host.
fn approval(result: &Value) -> &str {
    let hosts = result["structuredContent"]["deniedHosts"].as_array().unwrap_or_else(|| panic!("{result}"));
    assert_eq!((hosts.len(), &hosts[0]["host"]), (1, &json!("a.example")), "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains(&format!(
            "[a.example on port 80 was denied: {}]",
            hosts[0]["message"].as_str().unwrap()
        ))
    );
    hosts[0]["approval"].as_str().unwrap()
}

async fn accepts(conversation: Conversation<'_>) {
    let (result, questions) =
        conversation.bash(json!({ "command": PERSISTENT }), User::Accepts("sandbox")).await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert!(questions[0]["message"].as_str().unwrap().contains("a.example on port 80"));
    let output = &result["structuredContent"];
    assert_eq!((&output["exitCode"], &output["stdout"]), (&0.into(), &"the sink\n".into()), "{result}");
    assert_eq!((approval(&result), conversation.runs().await), ("allowedForSandbox", 1));
    assert_eq!(conversation.allowed().await, ["a.example"]);
}

async fn accepts_once(conversation: Conversation<'_>) {
    let (result, questions) = conversation.bash(json!({ "command": ONCE }), User::Accepts("once")).await;
    assert_eq!((questions.len(), approval(&result), conversation.runs().await), (1, "allowedOnce", 1));
    assert_eq!(result["structuredContent"]["exitCode"], 22, "the denied connection has failed: {result}");
    assert_eq!(conversation.allowed().await, [""; 0]);
    let (again, questions) = conversation.bash(json!({ "command": ONCE }), User::Declines).await;
    assert_eq!(
        (&again["structuredContent"]["stdout"], questions.len()),
        (&json!("the sink\n"), 0),
        "{again}"
    );
}

async fn refuses(conversation: Conversation<'_>, user: User, outcome: &str) {
    // Longer than the time that a question needs, so that it is conversation.
    let command = json!({ "command": ONCE, "waitMs": 6_000 });
    let (result, questions) = conversation.bash(command, user).await;
    assert_eq!((questions.len(), approval(&result), conversation.runs().await), (1, outcome, 1));
    assert!(result["isError"] != true && result["structuredContent"]["exitCode"] == 22, "{result}");
    assert_eq!(conversation.allowed().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_decides_and_the_command_runs_once() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    tokio::join!(
        async { accepts(Conversation::modern(&daemon, "accepts").await).await },
        async { accepts(Conversation::legacy(&daemon, "accepts").await).await },
        async { accepts_once(Conversation::modern(&daemon, "once").await).await },
        async { accepts_once(Conversation::legacy(&daemon, "once").await).await },
    );
    tokio::join!(
        async { refuses(Conversation::modern(&daemon, "declines").await, User::Declines, "declined").await },
        async { refuses(Conversation::legacy(&daemon, "declines").await, User::Declines, "declined").await },
        async { refuses(Conversation::modern(&daemon, "cancels").await, User::Cancels, "unanswered").await },
        async { refuses(Conversation::legacy(&daemon, "cancels").await, User::Cancels, "unanswered").await },
        async {
            refuses(Conversation::modern(&daemon, "silent").await, User::NeverAnswers, "unanswered").await
        },
        async {
            refuses(Conversation::legacy(&daemon, "silent").await, User::NeverAnswers, "unanswered").await
        },
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_is_only_for_its_own_command() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let conversation = Conversation::modern(&daemon, "state").await;
    let params = json!({ "name": "bash", "arguments": { "command": PERSISTENT } });
    let first = conversation.client.ask("tools/call", params.clone()).await["result"].clone();
    let state = first["requestState"].as_str().unwrap();
    let key = first["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let accept = json!({ key: { "action": "accept", "content": { "scope": "sandbox" } } });
    let repeat = |client: &Mcp, command: &str, state: Option<&str>| {
        let mut params = params.clone();
        params["arguments"]["command"] = command.into();
        params["inputResponses"] = accept.clone();
        params["requestState"] = json!(state);
        let client = client.clone();
        async move { client.ask("tools/call", params).await }
    };
    let other = Mcp::of(&daemon).with_elicitation().in_session("modern other");
    other.output("true").await;
    let forged = format!("{}A", &state[..state.len() - 1]);
    let forged = if forged == state { format!("{}B", &state[..state.len() - 1]) } else { forged };
    let rejected = [
        repeat(&conversation.client, PERSISTENT, Some(&forged)).await,
        repeat(&conversation.client, "echo ran >>runs", Some(state)).await,
        repeat(&other, PERSISTENT, Some(state)).await,
        repeat(&conversation.client.with("x-sandbox-user", "eve"), PERSISTENT, Some(state)).await,
        repeat(&conversation.client, PERSISTENT, None).await,
    ];
    for answer in rejected {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(
        (conversation.runs().await, conversation.allowed().await.len()),
        (1, 0),
        "nothing was started or allowed"
    );
    let done = repeat(&conversation.client, PERSISTENT, Some(state)).await;
    assert_eq!(done["result"]["structuredContent"]["stdout"], "the sink\n", "{done}");
    let again = repeat(&conversation.client, PERSISTENT, Some(state)).await;
    assert_eq!(again["result"]["structuredContent"]["stdout"], "the sink\n", "{again}");
    assert_eq!(conversation.runs().await, 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_asked_about_once_and_some_never() {
    let Some(sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    for conversation in
        [Conversation::modern(&daemon, "many").await, Conversation::legacy(&daemon, "many").await]
    {
        let hosts = "a b lan c d e f g".split(' ').map(|name| format!("http://{name}.example/"));
        let urls: Vec<String> = hosts.chain([format!("http://{LAN}/")]).collect();
        let command =
            format!("for i in 1 2; do for url in {}; do curl -s $url; done; done; false", urls.join(" "));
        let (result, questions) = conversation.bash(json!({ "command": command }), User::Declines).await;
        assert_eq!(questions.len(), 5, "{questions:?}");
        let listed = result["structuredContent"]["deniedHosts"].as_array().unwrap().len();
        assert_eq!(listed, 8, "an address that must not be allowed is not offered: {result}");
        let lan = json!({ "command": "curl -sS http://lan.example/" });
        let (result, questions) = conversation.bash(lan, User::Accepts("sandbox")).await;
        assert_eq!(questions.len(), 1);
        let denied = &result["structuredContent"]["deniedHosts"][0];
        assert_eq!(denied["approval"], "notAllowed", "{denied}");
        assert!(denied["message"].as_str().unwrap().contains("outside the public internet"));
    }
    assert!(sink.arrivals(LAN).is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_ask_gets_an_error_that_names_the_host() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    for client in [Mcp::of(&daemon), Mcp::of(&daemon).legacy().await] {
        let client = client.in_session("without elicitation");
        let info = client.result("sandbox_info", json!({})).await;
        let sandbox: SandboxId = info["sandbox"].as_str().unwrap().parse().unwrap();
        daemon.client.change_network(&sandbox, &network("allowlist", &[]).unwrap()).await.unwrap();
        let Called { text, structured, is_error, .. } = client.call("bash", json!({ "command": ONCE })).await;
        assert!(is_error && text.contains("a.example on port 80 was denied"), "{text}");
        assert!(text.contains(&format!("sandboxd network {sandbox} --allow-denied den_")), "{text}");
        assert_eq!(
            (&structured["exitCode"], &structured["deniedHosts"][0]["approval"]),
            (&22.into(), &"notAsked".into())
        );
        let fine = client.call("bash", json!({ "command": format!("{ONCE} || true") })).await;
        assert!(!fine.is_error && fine.text.contains("a.example on port 80 was denied"), "{}", fine.text);
        let later = client.call("bash", json!({ "command": "exit 3" })).await;
        assert!(!later.is_error && later.structured["deniedHosts"].is_null(), "{later:?}");
    }
    let plain = Mcp::of(&daemon).with_elicitation().in_session("background");
    let command = format!("{ONCE}; sleep 60");
    let started = json!({ "name": "bash", "arguments": { "command": command, "background": true } });
    let (answer, _) = messages(plain.request("tools/call", started).send().await.unwrap()).await;
    assert_eq!(answer["result"]["structuredContent"]["running"], true, "no client waits for it: {answer}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_wants_warnings_gets_one_for_each_denied_host() {
    let Some(_sink) = Sink::open() else { return };
    let daemon = Daemon::start_in(home()).await;
    let modern = Conversation::new(&daemon, Mcp::of(&daemon).in_session("modern"), true).await;
    let command = json!({ "command": ONCE });
    let warnings = async |level: Value| {
        let called = modern.client.call_with("bash", command.clone(), level).await;
        let sent = called.notifications.into_iter();
        sent.filter(|sent| sent["method"] == "notifications/message").collect::<Vec<Value>>()
    };
    let level = |level: &str| json!({ "io.modelcontextprotocol/logLevel": level });
    assert_eq!(warnings(json!({})).await.len(), 0);
    assert_eq!(warnings(level("error")).await.len(), 0);
    let warned = warnings(level("info")).await;
    assert_eq!(warned.len(), 1, "{warned:?}");
    let params = &warned[0]["params"];
    assert_eq!((&params["level"], &params["logger"]), (&"warning".into(), &"network".into()));
    assert_eq!(params["data"]["host"], "a.example");

    let legacy = Mcp::of(&daemon).legacy().await.in_session("legacy");
    let legacy = Conversation::new(&daemon, legacy, false).await;
    let mut listener = Messages::of(legacy.client.listen().await);
    let set = legacy.client.ask("logging/setLevel", json!({ "level": "warning" })).await;
    assert_eq!(set["result"], json!({}), "{set}");
    legacy.client.call("bash", command.clone()).await;
    let warned = listener.next_with("method").await;
    assert_eq!(
        (&warned["method"], &warned["params"]["data"]["host"]),
        (&"notifications/message".into(), &"a.example".into())
    );
    daemon.stop().await;
}
