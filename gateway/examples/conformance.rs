//! A server for other people's suites: the memory at `/mcp`, and at `/fixtures/mcp` the tools and resources that the protocol's suite asks
//! for by name, over the very transport, sessions and gate that the memory has. It prints its address and runs until it is ended.

// Not part of what ships.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::{future::IntoFuture, net::SocketAddr, sync::Arc};

use recant_eventlog::clock::SystemClock;
use recant_gateway::{
    access::{Access, gate},
    all_of_it,
    host::Host,
    http::{Gateway, Limits},
    mcp,
    stream::Streams,
};
use recant_processor::standalone::{NewLog, Standalone};
use recant_proto::position::Incarnation;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        AudioContent, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, SubscribeRequestParams, Tool,
        UnsubscribeRequestParams,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// A PNG of one pixel, and a WAV of no length.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

const PLAIN_TOOLS: [&str; 8] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_reconnection",
];

#[derive(Clone)]
struct Fixtures;

fn schema(value: Value) -> rmcp::model::JsonObject {
    value.as_object().unwrap().clone()
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime_type))
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe();
        ServerConfig::new(capabilities.build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let plain =
            |name| Tool::new(name, "What the suite asks for", schema(json!({ "type": "object", "properties": {} })));
        let mut tools: Vec<Tool> = PLAIN_TOOLS.into_iter().map(plain).collect();
        let address =
            json!({ "type": "object", "properties": { "street": { "type": "string" }, "city": { "type": "string" } } });
        let with_keywords = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": address },
            "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
            "additionalProperties": false
        });
        tools.push(Tool::new("json_schema_2020_12_tool", "Keywords of JSON Schema 2020-12", schema(with_keywords)));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = ContentBlock::text;
        let content = match request.name.as_ref() {
            "test_simple_text" => vec![text("This is a simple text response for testing.")],
            "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
            "test_audio_content" => vec![ContentBlock::Audio(AudioContent::new(WAV, "audio/wav"))],
            "test_embedded_resource" => {
                vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
            }
            "test_multiple_content_types" => vec![
                text("Multiple content types test:"),
                ContentBlock::image(PNG, "image/png"),
                embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
            ],
            "test_error_handling" => {
                let error = CallToolResult::error(vec![text("This tool intentionally returns an error for testing")]);
                return Ok(error.into());
            }
            "test_tool_with_progress" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for done in [0.0, 50.0, 100.0] {
                        let progress = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
                        context.peer.notify_progress(progress).await.unwrap();
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                }
                vec![text("done")]
            }
            "test_reconnection" => vec![text("Reconnection test completed")],
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(CallToolResult::success(content).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = ["test://static-text", "test://static-binary", "test://watched-resource"];
        Ok(ListResourcesResult::with_all_items(all.map(|uri| Resource::new(uri, uri)).into()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "template");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let of_template = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, of_template) {
            ("test://static-text", _) => {
                ResourceContents::text("This is the content of the static text resource.", uri)
            }
            ("test://static-binary", _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
            (_, Some(id)) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            _ => return Err(ErrorData::resource_not_found("there is no such resource", None)),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    #[allow(deprecated)]
    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    #[allow(deprecated)]
    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let data = tempfile::tempdir().unwrap();
    let new = NewLog { incarnation: Incarnation([9; 16]), partitions: 1, log_time_occurred: false };
    let standalone = Standalone::create(data.path(), &new, Arc::new(SystemClock)).unwrap();
    let (host, running) = Host::embedded(standalone).unwrap();
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let streams = Streams::start(host.clone()).await.unwrap();
    let (memory, sessions) = all_of_it(Gateway::new(host, streams, Limits::default())).unwrap();
    let (fixtures, _) = mcp::router_of(|| Ok(Fixtures)).unwrap();
    let fixtures = gate::guard(fixtures, &Arc::new(Access::of_this_machine()));
    let router = memory.nest("/fixtures", fixtures);
    println!("{}", listener.local_addr().unwrap());
    let end = async {
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
    };
    tokio::select! {
        served = axum::serve(listener, router).into_future() => served.unwrap(),
        () = end => {}
    }
    sessions.end();
    // The system takes the rest; what was acknowledged is on disk.
    std::mem::forget(running);
}
