//! Elicitation: the user is asked whether a sandbox may connect to a host.
//!
//! With the revisions up to 2025-11-25, the server sends a request to the client while the call waits. Since 2026-07-28,
//! the result has the questions, and the client repeats the call with the answers.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult,
    InputResponses, ProtocolVersion, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use sandbox_api::network::AllowScope;
use toolbox::{Answer, Question, Questions, Resume, Resumed};

/// Field of an answer.
const SCOPE: &str = "scope";

/// How questions reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// As requests.
    Legacy,
    /// As results.
    Modern,
}

/// How the client of a request lets its user be asked, if it does.
pub(crate) fn era(context: &RequestContext<RoleServer>) -> Option<Era> {
    context.client_capabilities().filter(is_offered)?;
    match context.protocol_version()? {
        version if version >= ProtocolVersion::V_2026_07_28 => Some(Era::Modern),
        _ => Some(Era::Legacy),
    }
}

/// Whether a client with these capabilities shows forms to its user. One that does not say which kind of elicitation
/// shows forms.
pub(crate) fn is_offered(capabilities: &ClientCapabilities) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    elicitation.is_some_and(|offered| offered.form.is_some() || offered.url.is_none())
}

/// Asks the user of a connected client.
pub(crate) struct Elicitations<'a> {
    client: &'a Peer<RoleServer>,
}

impl<'a> Elicitations<'a> {
    pub(crate) fn new(client: &'a Peer<RoleServer>) -> Self {
        Self { client }
    }

    async fn elicit(&self, question: &Question) -> Option<ElicitResult> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(question)));
        let sent =
            self.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.ok()?;
        let mut withdrawal = Withdrawal { client: self.client.clone(), request: Some(sent.id.clone()) };
        let answer = sent.await_response().await;
        withdrawal.request = None;
        match answer {
            Ok(ClientResult::ElicitResult(answer)) => Some(answer),
            _ => None,
        }
    }
}

impl Questions for Elicitations<'_> {
    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        async move { self.elicit(&question).await.map_or(Answer::None, answer_of) }.boxed()
    }
}

/// Withdraws a question that is dropped without an answer. The client closes its form, and nothing waits for it.
struct Withdrawal {
    client: Peer<RoleServer>,
    request: Option<RequestId>,
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let client = self.client.clone();
        tokio::spawn(async move {
            let reason = "the call no longer waits for an answer".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(request), Some(reason));
            // A client that has left needs no notification.
            let _ = client.notify_cancelled(cancelled).await;
        });
    }
}

/// The result that has questions.
pub(crate) fn input_required(resume: &Resume, state: String) -> InputRequiredResult {
    let requests = resume.questions.iter().map(|question| {
        let request = InputRequest::Elicitation(ElicitRequest::new(form(question)));
        (question.denial.to_string(), request)
    });
    InputRequiredResult::new(Some(requests.collect()), Some(state))
}

/// A repeated call with its answers. Answers to other questions are ignored.
pub(crate) fn resumed(resume: Resume, responses: &InputResponses) -> Resumed {
    let answer_to = |question: &Question| {
        let response = responses.get(question.denial.as_str())?;
        let answer = serde_json::from_value(response.clone()).map_or(Answer::None, answer_of);
        Some((question.denial.clone(), answer))
    };
    let answers: HashMap<_, _> = resume.questions.iter().filter_map(answer_to).collect();
    Resumed { resume, answers }
}

/// The form for a question.
fn form(question: &Question) -> ElicitRequestParams {
    let values = vec!["once".to_owned(), "sandbox".to_owned()];
    let scope = EnumSchema::builder(values)
        .title("How long")
        .description("once: for one use. sandbox: for as long as this sandbox exists.")
        .with_default("once")
        .map_or_else(|_| EnumSchema::builder(Vec::new()).build(), |scope| scope.build());
    let requested_schema = ElicitationSchema::builder().required_enum_schema(SCOPE, scope).build_unchecked();
    ElicitRequestParams::FormElicitationParams { meta: None, message: question.text(), requested_schema }
}

/// An acceptance without a scope is for one use. One with another scope is none.
fn answer_of(result: ElicitResult) -> Answer {
    let scope = result.content.as_ref().and_then(|content| content.get(SCOPE));
    match (result.action, scope) {
        (ElicitationAction::Accept, None) => Answer::Allow(AllowScope::Once),
        (ElicitationAction::Accept, Some(scope)) => {
            serde_json::from_value(scope.clone()).map_or(Answer::None, Answer::Allow)
        }
        (ElicitationAction::Decline, _) => Answer::Decline,
        _ => Answer::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(json: Value) -> Answer {
        serde_json::from_value(json).map_or(Answer::None, answer_of)
    }

    #[test]
    fn only_an_acceptance_allows() {
        let accepted = |content: Value| answer(json!({ "action": "accept", "content": content }));
        assert_eq!(accepted(json!({ "scope": "sandbox" })), Answer::Allow(AllowScope::Sandbox));
        assert_eq!(accepted(json!({ "scope": "once" })), Answer::Allow(AllowScope::Once));
        assert_eq!(answer(json!({ "action": "accept" })), Answer::Allow(AllowScope::Once));
        for scope in [json!("always"), json!(1), json!(null)] {
            assert_eq!(accepted(json!({ "scope": scope })), Answer::None);
        }
        assert_eq!(answer(json!({ "action": "decline" })), Answer::Decline);
        assert_eq!(answer(json!({ "action": "cancel" })), Answer::None);
        for malformed in [json!(null), json!({}), json!({ "action": "yes" }), json!("accept")] {
            assert_eq!(answer(malformed), Answer::None);
        }
    }

    #[test]
    fn a_form_offers_both_scopes() {
        let question = Question {
            denial: "den_0123456789abcdef".parse().unwrap(),
            host: "a.example".to_owned(),
            port: 443,
        };
        let form = serde_json::to_value(form(&question)).unwrap();
        let scope = &form["requestedSchema"]["properties"]["scope"];
        assert_eq!((&form["mode"], &scope["enum"]), (&json!("form"), &json!(["once", "sandbox"])), "{form}");
        assert_eq!((&scope["type"], &scope["default"]), (&json!("string"), &json!("once")));
        assert_eq!(form["requestedSchema"]["required"], json!(["scope"]));
        assert!(form["message"].as_str().unwrap().contains("a.example on port 443"));
    }

    #[test]
    fn forms_are_offered_unless_only_urls_are() {
        let is_offered = |json| is_offered(&serde_json::from_value(json).unwrap());
        assert!(is_offered(json!({ "elicitation": {} })));
        assert!(is_offered(json!({ "elicitation": { "form": {}, "url": {} } })));
        assert!(!is_offered(json!({ "elicitation": { "url": {} } })));
        assert!(!is_offered(json!({})));
    }
}
