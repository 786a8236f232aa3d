//! The methods of each revision and their directions.
//!
//! Spec: the schemas of MCP 2024-11-05 to 2026-07-28.

use super::{Dialect, REVISION_COUNT};
use crate::messages::Method;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
}

/// Availability of a method in a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Availability {
    /// Not available.
    No,
    /// From client to server.
    Up,
    /// From server to client.
    Down,
    /// Both directions.
    Both,
    /// Only as an input request inside a result.
    Inside,
}

use Availability::{Both, Down, Inside, No, Up};

/// The availability of each method, by revision, oldest first.
const TABLE: &[(Method, [Availability; REVISION_COUNT])] = &[
    (Method::Initialize, [Up, Up, Up, Up, No]),
    (Method::Ping, [Both, Both, Both, Both, No]),
    (Method::Discover, [No, No, No, No, Up]),
    (Method::ToolsList, [Up, Up, Up, Up, Up]),
    (Method::ToolsCall, [Up, Up, Up, Up, Up]),
    (Method::ResourcesList, [Up, Up, Up, Up, Up]),
    (Method::ResourceTemplatesList, [Up, Up, Up, Up, Up]),
    (Method::ResourcesRead, [Up, Up, Up, Up, Up]),
    (Method::ResourcesSubscribe, [Up, Up, Up, Up, No]),
    (Method::ResourcesUnsubscribe, [Up, Up, Up, Up, No]),
    (Method::PromptsList, [Up, Up, Up, Up, Up]),
    (Method::PromptsGet, [Up, Up, Up, Up, Up]),
    (Method::Complete, [Up, Up, Up, Up, Up]),
    (Method::SetLevel, [Up, Up, Up, Up, No]),
    (Method::Listen, [No, No, No, No, Up]),
    (Method::TasksGet, [No, No, No, Both, Up]),
    (Method::TasksCancel, [No, No, No, Both, Up]),
    (Method::TasksResult, [No, No, No, Both, No]),
    (Method::TasksList, [No, No, No, Both, No]),
    (Method::TasksUpdate, [No, No, No, No, Up]),
    (Method::CreateMessage, [Down, Down, Down, Down, Inside]),
    (Method::RootsList, [Down, Down, Down, Down, Inside]),
    (Method::Elicit, [No, No, Down, Down, Inside]),
    (Method::Initialized, [Up, Up, Up, Up, No]),
    (Method::Cancelled, [Both, Both, Both, Both, Both]),
    (Method::Progress, [Both, Both, Both, Both, Down]),
    (Method::LogMessage, [Down, Down, Down, Down, Down]),
    (Method::ToolsChanged, [Down, Down, Down, Down, Down]),
    (Method::PromptsChanged, [Down, Down, Down, Down, Down]),
    (Method::ResourcesChanged, [Down, Down, Down, Down, Down]),
    (Method::ResourceUpdated, [Down, Down, Down, Down, Down]),
    (Method::RootsChanged, [Up, Up, Up, Up, No]),
    (Method::ElicitationComplete, [No, No, No, Down, No]),
    (Method::TaskStatus, [No, No, No, Both, No]),
    (Method::SubscriptionAcknowledged, [No, No, No, No, Down]),
    (Method::TaskChanged, [No, No, No, No, Down]),
];

pub(super) fn has(dialect: Dialect, method: &Method, direction: Direction) -> bool {
    let way = availability(dialect, method);
    way == Both || way == if direction == Direction::ToServer { Up } else { Down }
}

pub(super) fn has_inside(dialect: Dialect, method: &Method) -> bool {
    availability(dialect, method) == Inside
}

fn availability(dialect: Dialect, method: &Method) -> Availability {
    TABLE.iter().find(|(name, _)| name == method).map_or(No, |(_, ways)| ways[dialect.index()])
}
