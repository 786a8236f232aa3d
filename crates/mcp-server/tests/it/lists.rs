//! Lists, pages, changes and subscriptions of tools, resources and prompts.

use mcp_protocol::completion::{CompleteParams, CompleteResult, CompletionArgument, PromptReference};
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::messages::{DiscoverResult, EmptyParams, EmptyResult, Id, Method, PageParams};
use mcp_protocol::prompts::{GetPromptParams, GetPromptResult, Prompt, PromptArgument};
use mcp_protocol::resources::{
    ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SubscribeParams,
};
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};
use mcp_protocol::tools::ListToolsResult;
use mcp_protocol::{Json, ProtocolVersion};
use mcp_server::{
    CompletionRequest, McpServer, PromptArguments, ReadRequest, Registry, prompt, resource,
    resource_template, tool,
};
use serde_json::Value;

use crate::test_client::{TestClient, TestError, TestServer};

fn server() -> McpServer {
    let greet = Prompt::new("greet")
        .description("Says hello.")
        .arguments([PromptArgument::new("name").required(true)]);
    McpServer::new(vec![])
        .tool(tool("one", || async { "1" }))
        .tool(tool("two", || async { "2" }))
        .tool(tool("three", || async { "3" }))
        .resource(resource(Resource::new("motd://today", "motd").mime_type("text/plain"), || async {
            "Be kind."
        }))
        .resource(resource(Resource::new("bytes://x", "bytes"), || async { vec![0_u8, 255] }))
        .template(resource_template(
            ResourceTemplate::new("row://{table}/{id}", "row"),
            |request: ReadRequest| async move {
                format!("{} of {}", request.variable("id"), request.variable("table"))
            },
        ))
        .prompt(
            prompt(greet, |arguments: PromptArguments| async move {
                format!("Hello, {}!", arguments.get("name"))
            })
            .complete("name", |request: CompletionRequest| async move {
                (0..150).map(move |n| format!("{}{n}", request.value))
            }),
        )
}

async fn clients() -> Vec<(Registry, TestClient)> {
    let mut clients = Vec::new();
    let modern = server();
    clients.push((modern.registry(), modern.test_client().await.unwrap()));
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_11_25]
    {
        let legacy = server();
        clients.push((legacy.registry(), legacy.legacy_test_client(version).await.unwrap()));
    }
    clients
}

#[tokio::test]
async fn resources_are_read_and_an_unknown_uri_is_not_found() {
    for (_, mut client) in clients().await {
        for (uri, text, blob) in [
            ("motd://today", Some("Be kind."), None),
            ("bytes://x", None, Some("AP8=")),
            ("row://users/7", Some("7 of users"), None),
        ] {
            let read: ReadResourceResult =
                client.request(&Method::ResourcesRead, &ReadResourceParams::new(uri)).await.unwrap();
            assert_eq!(read.contents[0].uri, uri);
            assert_eq!((read.contents[0].text.as_deref(), read.contents[0].blob.as_deref()), (text, blob));
        }
        let missing = client
            .request::<ReadResourceResult>(&Method::ResourcesRead, &ReadResourceParams::new("no://no"))
            .await;
        let Err(TestError::Refused(error)) = missing else { panic!("{missing:?}") };
        assert!(error.is_resource_not_found());
        assert_eq!(error.data.unwrap().get(), r#"{"uri":"no://no"}"#);
    }
}

#[tokio::test]
async fn prompts_are_rendered_and_completed() {
    for (_, mut client) in clients().await {
        let params = GetPromptParams::new("greet").arguments([("name".to_owned(), "Ada".to_owned())]);
        let got: GetPromptResult = client.request(&Method::PromptsGet, &params).await.unwrap();
        assert_eq!(got.messages[0].content.as_text(), Some("Hello, Ada!"));
        assert_eq!(got.description.as_deref(), Some("Says hello."));
        let missing_argument =
            client.request::<GetPromptResult>(&Method::PromptsGet, &GetPromptParams::new("greet")).await;
        let Err(TestError::Refused(error)) = missing_argument else { panic!("{missing_argument:?}") };
        assert_eq!(error.code, ErrorCode::InvalidParams);
        assert!(error.message.contains("`name`"));
        let params = CompleteParams::new(PromptReference::new("greet"), CompletionArgument::new("name", "A"));
        let completed: CompleteResult = client.request(&Method::Complete, &params).await.unwrap();
        assert_eq!((completed.completion.values.len(), completed.completion.has_more), (100, Some(true)));
        assert_eq!(completed.completion.total, Some(150));
    }
}

#[tokio::test]
async fn lists_keep_their_order_and_are_paged() {
    let mut client = server().page_size(2).test_client().await.unwrap();
    let first: ListToolsResult = client.request(&Method::ToolsList, &PageParams::new()).await.unwrap();
    let cursor = first.next_cursor.clone().unwrap();
    let second: ListToolsResult =
        client.request(&Method::ToolsList, &PageParams::new().cursor(cursor)).await.unwrap();
    let names: Vec<_> = first.tools.iter().chain(&second.tools).map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["one", "two", "three"]);
    // On the last page the member is absent, not null.
    assert_eq!(second.next_cursor, None);
    let unknown_cursor =
        client.request::<ListToolsResult>(&Method::ToolsList, &PageParams::new().cursor("nowhere")).await;
    assert!(
        matches!(unknown_cursor, Err(TestError::Refused(error)) if error.code == ErrorCode::InvalidParams)
    );
}

#[tokio::test]
async fn registry_change_updates_lists_and_notifies_legacy_clients() {
    for (registry, mut client) in clients().await.into_iter().skip(1) {
        let before: ListToolsResult = client.request(&Method::ToolsList, &PageParams::new()).await.unwrap();
        assert_eq!(before.tools.len(), 3);
        registry.add_tool(tool("four", || async { "4" })).unwrap();
        assert_eq!(client.notification().await.unwrap().0, Method::ToolsChanged);
        let after: ListToolsResult = client.request(&Method::ToolsList, &PageParams::new()).await.unwrap();
        assert_eq!(after.tools.last().unwrap().name, "four");
        assert!(registry.remove_tool("one"));
        assert_eq!(client.notification().await.unwrap().0, Method::ToolsChanged);
        let after: ListToolsResult = client.request(&Method::ToolsList, &PageParams::new()).await.unwrap();
        assert_eq!(after.tools[0].name, "two");
    }
}

#[tokio::test]
async fn legacy_client_is_notified_of_subscribed_resources() {
    let server = server();
    let registry = server.registry();
    let mut client = server.legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
    let subscribe = SubscribeParams::new("motd://today");
    client.request::<EmptyResult>(&Method::ResourcesSubscribe, &subscribe).await.unwrap();
    registry.resource_updated("motd://tomorrow");
    registry.resource_updated("motd://today");
    let (method, params) = client.notification().await.unwrap();
    assert_eq!((method, params.get()), (Method::ResourceUpdated, r#"{"uri":"motd://today"}"#));
    client.request::<EmptyResult>(&Method::ResourcesUnsubscribe, &subscribe).await.unwrap();
    registry.resource_updated("motd://today");
    client.request::<EmptyResult>(&Method::Ping, &EmptyParams::new()).await.unwrap();
    assert_eq!(client.notifications.len(), 0);
}

#[tokio::test]
async fn listen_stream_delivers_only_the_requested_notifications() {
    let server = server();
    let registry = server.registry();
    let mut client = server.test_client().await.unwrap();
    let filter = SubscriptionFilter::new()
        .tools_list_changed(true)
        .prompts_list_changed(false)
        .resource_subscriptions(["motd://today".to_owned()])
        .task_ids(["t".to_owned()]);
    let id = client.send(&Method::Listen, &ListenParams::new(filter)).await.unwrap();
    let (method, params) = client.notification().await.unwrap();
    assert_eq!(method, Method::SubscriptionAcknowledged);
    let params: Value = params.to().unwrap();
    assert_eq!(
        params["notifications"],
        serde_json::json!({"toolsListChanged": true, "resourceSubscriptions": ["motd://today"]})
    );
    registry.remove_prompt("greet");
    registry.resource_updated("motd://today");
    registry.add_tool(tool("four", || async { "4" })).unwrap();
    let received: Vec<(Method, Json)> =
        vec![client.notification().await.unwrap(), client.notification().await.unwrap()];
    assert_eq!(received[0].0, Method::ResourceUpdated);
    assert_eq!(received[1].0, Method::ToolsChanged);
    for (_, params) in &received {
        let params: Value = params.to().unwrap();
        assert_eq!(
            params["_meta"]["io.modelcontextprotocol/subscriptionId"],
            serde_json::to_value(&id).unwrap()
        );
    }
    // A cancelled stream receives no notifications.
    client.notify(&Method::Cancelled, &mcp_protocol::messages::CancelledParams::new(id)).await.unwrap();
    client.call("one", serde_json::json!({})).await.unwrap();
    registry.remove_tool("four");
    client.call("one", serde_json::json!({})).await.unwrap();
    assert_eq!(client.notifications.len(), 0);
}

#[tokio::test]
async fn discover_lists_the_versions_newest_first() {
    let mut client = server().instructions("Be brief.").test_client().await.unwrap();
    let discovered: DiscoverResult = client.request(&Method::Discover, &EmptyParams::new()).await.unwrap();
    assert_eq!(discovered.supported_versions[0], ProtocolVersion::V2026_07_28);
    assert_eq!(discovered.supported_versions.len(), 5);
    assert_eq!(discovered.instructions.as_deref(), Some("Be brief."));
    assert!(discovered.capabilities.tools.is_some());
    let _: Id = client.send(&Method::Discover, &EmptyParams::new()).await.unwrap();
}
