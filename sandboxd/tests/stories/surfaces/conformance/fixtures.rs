//! The daemon's MCP server with the tools, prompts and resources of the conformance suite.

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceTemplate, ServerConfig, ServerNotification, ServerRequest, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use sandboxd::api::SurfaceSetup;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::answers;
use super::rounds::{Received, Round};

/// The daemon's surfaces, with the fixtures in the MCP server.
pub(super) fn surfaces(setup: SurfaceSetup) -> Router {
    let (changes, _) = broadcast::channel(16);
    let extend = move |server| Fixtures { server, changes: changes.clone() };
    mcp::http_with(setup.shared, setup.mcp_key, setup.shutdown, extend)
}

pub(super) fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// A list that has changed.
#[derive(Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// Everything other than a fixture is answered by the daemon's server.
struct Fixtures {
    server: mcp::Server,
    changes: broadcast::Sender<Change>,
}

type Context = RequestContext<RoleServer>;

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.server.get_info();
        let mut capabilities = serde_json::to_value(&info.capabilities).unwrap();
        for (name, value) in [
            ("tools", json!({ "listChanged": true })),
            ("prompts", json!({ "listChanged": true })),
            ("resources", json!({ "subscribe": true })),
            ("logging", json!({})),
            ("completions", json!({})),
        ] {
            capabilities[name] = value;
        }
        info.capabilities = from(capabilities);
        info
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = self.server.list_tools(page, context).await?.tools;
        tools.extend(answers::tools().into_iter().map(from::<Tool>));
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = answers::tools().into_iter().find(|tool| tool["name"] == name);
        fixture.map(from).or_else(|| self.server.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = answers::result_of(&request.name) {
            return Ok(from::<CallToolResult>(result).into());
        }
        let received = Received {
            name: &request.name,
            responses: request.input_responses.clone().unwrap_or_default(),
            state: request.request_state.clone(),
            capabilities: capabilities_of(&context),
        };
        match received.round()? {
            Some(Round::Ask(needed)) => return Ok(needed.into()),
            Some(Round::Done(text)) => return Ok(from::<CallToolResult>(answers::text(&text)).into()),
            None => {}
        }
        match self.act(&request, &context).await? {
            Some(text) => Ok(from::<CallToolResult>(answers::text(&text)).into()),
            None => self.server.call_tool(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(from(answers::prompts())))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let argument =
            |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(prompt) = answers::prompt_named(&request.name, argument) {
            return Ok(GetPromptResponse::Complete(from(prompt)));
        }
        let received = Received {
            name: &request.name,
            responses: request.input_responses.unwrap_or_default(),
            state: request.request_state,
            capabilities: capabilities_of(&context),
        };
        match received.round()? {
            Some(Round::Ask(needed)) => Ok(needed.into()),
            Some(Round::Done(text)) => Ok(GetPromptResponse::Complete(from(answers::prompt_of(&text)))),
            None => Err(ErrorData::invalid_params("there is no such prompt", None)),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut resources = self.server.list_resources(page, context).await?.resources;
        resources.extend(from::<Vec<_>>(answers::resources()));
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates = self.server.list_resource_templates(page, context).await?.resource_templates;
        templates.push(ResourceTemplate::new(answers::TEMPLATE, "fixture"));
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match answers::content_of(&request.uri) {
            Some(content) => Ok(ReadResourceResult::new(vec![from(content)]).into()),
            None => self.server.read_resource(request, context).await,
        }
    }

    #[expect(deprecated, reason = "the revision 2025-11-25 has it")]
    async fn set_level(&self, _: rmcp::model::SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // Changes that were not requested are rejected here.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }
}

impl Fixtures {
    /// Executes a tool that sends messages to its client. `None` for another name.
    async fn act(
        &self,
        request: &CallToolRequestParams,
        context: &Context,
    ) -> Result<Option<String>, ErrorData> {
        let argument = |name: &str| {
            let found = request.arguments.as_ref().and_then(|arguments| arguments.get(name)?.as_str());
            found.unwrap_or_default().to_owned()
        };
        if let Some(form) = answers::form_of(&request.name, &argument("message")) {
            return ask(context, json!({ "method": "elicitation/create", "params": form })).await.map(Some);
        }
        let done = match &*request.name {
            "test_sampling" => {
                let content = json!({ "type": "text", "text": argument("prompt") });
                let params =
                    json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 100 });
                ask(context, json!({ "method": "sampling/createMessage", "params": params })).await?
            }
            "test_tool_with_logging" => {
                for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    notify(context, "message", json!({ "level": "info", "data": text })).await;
                }
                "logged".into()
            }
            // The suite sends no level, so nothing may be logged.
            "test_logging_tool" => "nothing to log".into(),
            "test_tool_with_progress" => {
                for progress in [0, 50, 100] {
                    let token = context.meta.get_progress_token();
                    let params = json!({ "progressToken": token, "progress": progress, "total": 100 });
                    notify(context, "progress", params).await;
                }
                "complete".into()
            }
            "test_missing_capability" => {
                if !capabilities_of(context)["sampling"].is_object() {
                    let needed = from(json!({ "sampling": {} }));
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                "the client declares sampling".into()
            }
            "test_trigger_tool_change" => self.change(Change::Tools),
            "test_trigger_prompt_change" => self.change(Change::Prompts),
            _ => return Ok(None),
        };
        Ok(Some(done))
    }

    fn change(&self, change: Change) -> String {
        // There may be no listener.
        let _ = self.changes.send(change);
        "changed".into()
    }
}

fn capabilities_of(context: &Context) -> Value {
    serde_json::to_value(context.client_capabilities()).unwrap()
}

/// Sends a request to the client and returns its result.
async fn ask(context: &Context, request: Value) -> Result<String, ErrorData> {
    let answer = context.peer.send_request(from::<ServerRequest>(request)).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(serde_json::to_string(&answer).unwrap())
}

async fn notify(context: &Context, method: &str, params: Value) {
    let method = format!("notifications/{method}");
    let notification = from::<ServerNotification>(json!({ "method": method, "params": params }));
    context.peer.send_notification(notification).await.unwrap();
}
