//! Lists, resources, prompts, completion, changes.

use mcp_client::protocol::completion::{CompleteParams, CompletionArgument, PromptReference};
use mcp_client::protocol::prompts::{Prompt, PromptArgument};
use mcp_client::protocol::resources::{Resource, ResourceTemplate};
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, Error};
use mcp_server::{
    CompletionRequest, McpServer, PromptArguments, ReadRequest, prompt, resource, resource_template, tool,
};

use crate::support::{BOTH_ERAS, connect, revisions};

fn server() -> McpServer {
    McpServer::named("offers", "1")
        .page_size(7)
        .resource(resource(Resource::new("motd://today", "motd"), || async { "Be kind." }))
        .template(resource_template(
            ResourceTemplate::new("row://{id}", "row"),
            |request: ReadRequest| async move { format!("row {}", request.variable("id")) },
        ))
        .prompt(
            prompt(
                Prompt::new("greet").arguments([PromptArgument::new("language").required(true)]),
                |arguments: PromptArguments| async move { format!("In {}.", arguments.get("language")) },
            )
            .complete("language", |request: CompletionRequest| async move {
                ["German", "Greek"].into_iter().filter(move |name| name.starts_with(&request.value))
            }),
        )
}

#[tokio::test]
async fn paginated_list_is_complete_and_sorted() {
    for version in revisions() {
        let mut server = server();
        for number in (0..50).rev() {
            server = server.tool(tool(format!("tool_{number:02}"), || async {}));
        }
        let client = connect(server, version).await;
        let names: Vec<String> =
            client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        let expected: Vec<String> = (0..50).map(|number| format!("tool_{number:02}")).collect();
        assert_eq!(names, expected, "{version}");
    }
}

#[tokio::test]
async fn resources_prompts_and_completion_work_in_every_revision() {
    for version in revisions() {
        let client = connect(server(), version).await;
        assert_eq!(client.list_resources().await.unwrap()[0].uri, "motd://today");
        assert_eq!(client.list_resource_templates().await.unwrap()[0].uri_template, "row://{id}");
        assert_eq!(client.list_prompts().await.unwrap()[0].name, "greet");
        for (uri, text) in [("motd://today", "Be kind."), ("row://7", "row 7")] {
            let read = client.read_resource(uri).await.unwrap();
            assert_eq!(read.contents[0].text.as_deref(), Some(text), "{version}");
        }
        let missing = client.read_resource("motd://never").await.unwrap_err();
        assert!(matches!(missing, Error::Refused { error: source, .. } if source.is_resource_not_found()));
        let filled = client.get_prompt("greet", serde_json::json!({"language": "Latin"})).await.unwrap();
        assert_eq!(filled.messages[0].content.as_text(), Some("In Latin."));
        let ask =
            CompleteParams::new(PromptReference::new("greet"), CompletionArgument::new("language", "Gr"));
        match client.complete(&ask).await {
            Ok(completion) => assert_eq!(completion.values, ["Greek"], "{version}"),
            // 2024-11-05 cannot announce it.
            Err(error) => assert!(matches!(error, Error::NotOffered { .. }), "{version}: {error:?}"),
        }
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn changes_are_one_stream_in_both_eras() {
    for version in &BOTH_ERAS {
        let server = server();
        let registry = server.registry();
        let client = connect(server, version).await;
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .resource_subscriptions(["motd://today".to_owned()]);
        let mut changes = client.changes(filter).await.unwrap();
        assert_eq!(changes.acknowledged().tools_list_changed, Some(true));
        registry.add_tool(tool("new", || async {})).unwrap();
        assert_eq!(changes.next().await, Some(Change::Tools), "{version}");
        registry.resource_updated("motd://today");
        assert_eq!(changes.next().await, Some(Change::Resource("motd://today".to_owned())), "{version}");
        // What was not asked for is not told.
        registry.add_prompt(prompt(Prompt::new("more"), |_: PromptArguments| async { "x" })).unwrap();
        registry.add_tool(tool("newer", || async {})).unwrap();
        assert_eq!(changes.next().await, Some(Change::Tools), "{version}");
        drop(changes);
        client.ping().await.unwrap();
        assert!(client.stats().unknown == 0, "{:?}", client.stats());
    }
}

#[tokio::test]
async fn changes_end_when_the_connection_does() {
    for version in &BOTH_ERAS {
        let client = connect(server(), version).await;
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let closing = client.clone();
        tokio::spawn(closing.close());
        assert_eq!(changes.next().await, None);
    }
}

#[tokio::test]
async fn log_messages_are_filtered_by_level_in_both_eras() {
    use mcp_client::protocol::logging::LogLevel;
    use mcp_client::{FeedItem, McpClient};
    use mcp_server::{Context, NoArgs};
    for version in &BOTH_ERAS {
        let server = server().tool(tool("log", |_: NoArgs, cx: Context| async move {
            cx.log(LogLevel::Debug, "too mild");
            cx.log(LogLevel::Warning, "look here");
        }));
        let connect = McpClient::over(server.in_memory().unwrap())
            .versions([version.clone()])
            .log_level(LogLevel::Info);
        let client = connect.connect().await.unwrap();
        let mut logs = client.log_messages();
        client.call("log", serde_json::json!({})).await.unwrap();
        let Some(FeedItem::Next(message)) = logs.next().await else { panic!() };
        assert_eq!((&message.level, message.data.get()), (&LogLevel::Warning, "\"look here\""), "{version}");
        client.close().await;
        assert_eq!(logs.next().await, None);
    }
}
