//! Limits of lists: what a server may put on one page.

use mcp_client::Error;
use serde_json::{Value, json};

use crate::support::LogLines;
use crate::web::{Say, Seen, against, connect, modern};

const MAX_ITEMS: usize = 4096;

/// A page without a next cursor.
fn only_page(seen: &Seen, member: &str, items: Vec<Value>) -> Say {
    let mut result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    result[member] = items.into();
    seen.result(result)
}

fn tool(number: usize) -> Value {
    json!({"name": format!("tool-{number}"), "inputSchema": {"type": "object"}})
}

/// A tool that cannot be called over HTTP.
fn unusable(number: usize) -> Value {
    let property = json!({"type": "string", "x-mcp-header": "not a token"});
    json!({"name": format!("bad-{number}"), "inputSchema": {"type": "object", "properties": {"a": property}}})
}

#[tokio::test]
async fn item_limit_applies_to_the_only_page() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => only_page(seen, "tools", (0..=MAX_ITEMS).map(tool).collect()),
        "prompts/list" => only_page(
            seen,
            "prompts",
            (0..=MAX_ITEMS).map(|number| json!({"name": number.to_string()})).collect(),
        ),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let list = client.tools().await.unwrap();
        assert_eq!((list.items.len(), list.cut), (MAX_ITEMS, Some("it has more than 4096 items")));
        let error = client.list_tools().await.unwrap_err();
        assert!(matches!(error, Error::IncompleteList { .. }), "{error:?}");
        let error = client.list_prompts().await.unwrap_err();
        assert!(matches!(error, Error::IncompleteList { .. }), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn list_of_exactly_the_item_limit_is_complete() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => only_page(seen, "tools", (0..MAX_ITEMS).map(tool).collect()),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        assert_eq!(client.list_tools().await.unwrap().len(), MAX_ITEMS);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn byte_limit_applies_to_the_last_page() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => {
            let page: usize = seen.body["params"]["cursor"].as_str().map_or(0, |page| page.parse().unwrap());
            let mut tool = tool(page);
            tool["description"] = " ".repeat(12 << 20).into();
            let next = (page < 2).then(|| (page + 1).to_string());
            let mut result =
                json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]});
            if let Some(next) = next {
                result["nextCursor"] = next.into();
            }
            seen.result(result)
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let list = client.tools().await.unwrap();
        assert_eq!((list.items.len(), list.cut), (3, Some("it has more than 32 MiB")));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn skipped_tools_count_towards_the_item_limit() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => {
            let unreadable = (0..2 * MAX_ITEMS).map(|number| json!({"name": number.to_string()}));
            only_page(seen, "tools", std::iter::once(tool(0)).chain(unreadable).collect())
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let list = client.tools().await.unwrap();
        assert_eq!((list.items.len(), list.skipped.len()), (1, MAX_ITEMS - 1));
        assert_eq!(list.cut, Some("it has more than 4096 items"));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn unusable_tools_are_left_out_with_one_warning() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => {
            let tools = (0..100).flat_map(|number| [unusable(number), tool(number)]);
            only_page(seen, "tools", tools.collect())
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let (lines, guard) = LogLines::capture();
        let list = client.tools().await.unwrap();
        drop(guard);
        let names: Vec<_> = list.items.iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, (0..100).map(|number| format!("tool-{number}")).collect::<Vec<_>>());
        assert_eq!(list.skipped.len(), 100);
        assert_eq!(list.skipped[1].name.as_deref(), Some("bad-1"));
        let warnings: Vec<_> = lines.get().into_iter().filter(|line| line.starts_with("WARN")).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("skipped=100") && warnings[0].contains("bad-0"), "{warnings:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn one_invalid_item_does_not_lose_the_list() {
    let script = |seen: &Seen| match seen.method() {
        "resources/list" => only_page(
            seen,
            "resources",
            vec![json!({"name": "no uri"}), json!({"uri": "file:///a", "name": "a"}), json!(7)],
        ),
        "resources/templates/list" => only_page(
            seen,
            "resourceTemplates",
            vec![json!({"uriTemplate": "file:///{x}", "name": "x"}), json!({"name": "bad"})],
        ),
        "prompts/list" => {
            only_page(seen, "prompts", vec![json!({"name": 1}), json!({"name": "good"}), json!({"name": []})])
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let (lines, guard) = LogLines::capture();
        let resources = client.list_resources().await.unwrap();
        let templates = client.list_resource_templates().await.unwrap();
        let prompts = client.list_prompts().await.unwrap();
        drop(guard);
        assert_eq!(resources.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["a"]);
        assert_eq!(templates.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["x"]);
        assert_eq!(prompts.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["good"]);
        let warnings: Vec<_> = lines.get().into_iter().filter(|line| line.starts_with("WARN")).collect();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].contains("skipped=2") && warnings[0].contains("first=no uri"), "{warnings:?}");
        client.close().await;
    })
    .await;
}

/// A tool of which 100 arguments travel as headers, with 50 KB of names that lead to them.
fn annotated(number: usize) -> Value {
    let inner: serde_json::Map<String, Value> = (0..100)
        .map(|n| (n.to_string(), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
        .collect();
    let outer = json!({"n".repeat(450): {"type": "object", "properties": inner}});
    json!({"name": format!("tool-{number}"), "inputSchema": {"type": "object", "properties": outer}})
}

#[tokio::test]
async fn annotations_of_all_tools_together_are_bounded() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => {
            let mut tools: Vec<Value> = (0..100).map(annotated).collect();
            tools.push(tool(100));
            only_page(seen, "tools", tools)
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let list = client.tools().await.unwrap();
        assert_eq!(list.items.len() + list.skipped.len(), 101);
        // 4 MiB is enough for about 70 of them; tools without annotations are not affected.
        assert!((60..=90).contains(&list.items.len()), "{}", list.items.len());
        assert_eq!(list.items.last().unwrap().name, "tool-100");
        let error = list.skipped[0].error.to_string();
        assert!(error.contains("of all tools of the server"), "{error}");
        client.close().await;
    })
    .await;
}
