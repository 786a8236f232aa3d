//! A second copy of the method table: which revision has which method, and in which direction.

use mcp_protocol::Dialect;
use mcp_protocol::dialect::Direction;
use mcp_protocol::messages::Method;

/// Per revision, oldest first: `u` client to server, `d` server to client, `b` both, `i` inside a result, `-` none.
const TABLE: &[(&str, &str)] = &[
    ("initialize", "uuuu-"),
    ("ping", "bbbb-"),
    ("server/discover", "----u"),
    ("tools/list", "uuuuu"),
    ("tools/call", "uuuuu"),
    ("resources/list", "uuuuu"),
    ("resources/templates/list", "uuuuu"),
    ("resources/read", "uuuuu"),
    ("resources/subscribe", "uuuu-"),
    ("resources/unsubscribe", "uuuu-"),
    ("prompts/list", "uuuuu"),
    ("prompts/get", "uuuuu"),
    ("completion/complete", "uuuuu"),
    ("logging/setLevel", "uuuu-"),
    ("subscriptions/listen", "----u"),
    ("tasks/get", "---bu"),
    ("tasks/cancel", "---bu"),
    ("tasks/result", "---b-"),
    ("tasks/list", "---b-"),
    ("tasks/update", "----u"),
    ("sampling/createMessage", "ddddi"),
    ("roots/list", "ddddi"),
    ("elicitation/create", "--ddi"),
    ("notifications/initialized", "uuuu-"),
    ("notifications/cancelled", "bbbbb"),
    ("notifications/progress", "bbbbd"),
    ("notifications/message", "ddddd"),
    ("notifications/tools/list_changed", "ddddd"),
    ("notifications/prompts/list_changed", "ddddd"),
    ("notifications/resources/list_changed", "ddddd"),
    ("notifications/resources/updated", "ddddd"),
    ("notifications/roots/list_changed", "uuuu-"),
    ("notifications/elicitation/complete", "---d-"),
    ("notifications/tasks/status", "---b-"),
    ("notifications/subscriptions/acknowledged", "----d"),
    ("notifications/tasks", "----d"),
    ("acme/unknown", "-----"),
];

#[test]
fn methods_match_revision_and_direction_table() {
    for (name, ways) in TABLE {
        let method = Method::from(*name);
        assert_eq!(matches!(method, Method::Other(_)), *name == "acme/unknown", "{name}");
        let found: String = Dialect::ALL
            .iter()
            .map(|dialect| {
                let up = dialect.has(&method, Direction::ToServer);
                let down = dialect.has(&method, Direction::ToClient);
                match (up, down, dialect.has_inside(&method)) {
                    (true, true, false) => 'b',
                    (true, false, false) => 'u',
                    (false, true, false) => 'd',
                    (false, false, true) => 'i',
                    (false, false, false) => '-',
                    other => panic!("{name}: {other:?}"),
                }
            })
            .collect();
        assert_eq!(&found, ways, "{name}");
    }
}
