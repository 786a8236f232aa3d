//! A request that may take several rounds. In each round the server may request input; the request is then sent again
//! with the responses.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::errors::{BodyError, ErrorCode, ErrorObject};
use mcp_protocol::input::{InputRequiredResult, InputResponses, Round};
use mcp_protocol::messages::{Method, OwnedBody, ResultType};
use mcp_protocol::peer::{TimeoutReason, Timeouts};
use mcp_protocol::prompts::GetPromptParams;
use mcp_protocol::resources::ReadResourceParams;
use mcp_protocol::retry::Backoff;
use mcp_protocol::tools::CallToolParams;
use mcp_protocol::wire_trace::without_query;

use crate::client::McpClient;
use crate::connection::progress::Progress;
use crate::connection::{InFlightRequest, RequestOptions, RequestUpdate, now};
use crate::error::{Error, Result, Sent};

/// The maximum number of rounds in which a server may request input.
const MAX_ROUNDS: u32 = 10;
/// The maximum number of inputs that a server may request in one round.
const MAX_INPUTS: usize = 16;
/// The maximum number of progress notifications that are handled before other tasks run.
const MAX_STEPS_PER_POLL: usize = 32;
/// The pauses before a request is sent again if the server requested no input and sent only `requestState`.
const EMPTY_ROUND_BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// Params of a request that can be sent again with the responses of the host.
pub(crate) trait RoundParams: Lower + Send + Sync {
    /// Sets what the next round adds to the params: the responses of the host, and the state from the server.
    fn set_input(&mut self, responses: Option<InputResponses>, state: Option<String>);

    /// The name of the tool or prompt, or the URI of the resource without its query.
    fn name(&self) -> String;
}

macro_rules! round_params {
    ($($params:ty, $name:ident);*) => { $(
        impl RoundParams for $params {
            fn name(&self) -> String {
                without_query(&self.$name).into_owned()
            }

            fn set_input(&mut self, responses: Option<InputResponses>, state: Option<String>) {
                self.input_responses = responses;
                self.request_state = state;
            }
        }
    )* };
}

round_params!(CallToolParams, name; GetPromptParams, name; ReadResourceParams, uri);

/// The progress callback of a call.
pub(crate) type OnProgress = Box<dyn FnMut(Progress) + Send>;

/// Sends the request until its result is complete. Returns the body of that result.
pub(crate) async fn run(
    client: &McpClient,
    method: &Method,
    params: &mut dyn RoundParams,
    timeouts: Timeouts,
    mut on_progress: Option<&mut OnProgress>,
) -> Result<OwnedBody> {
    let mut began = None;
    if client.exchanges().is_some_and(|exchanges| *method == Method::ToolsCall && exchanges.needs_tools()) {
        // Boxed because this path is rare: it keeps the common future small.
        return Box::pin(async {
            began = Some(now());
            let mut left = timeouts;
            left.total = learn(client, method, timeouts).await?;
            let outcome = send_once(client, method, params, left, &mut on_progress, &mut began).await;
            more_rounds(client, method, params, (timeouts.total, left), on_progress, began, outcome).await
        })
        .await;
    }
    match send_once(client, method, params, timeouts, &mut on_progress, &mut began).await {
        Ok(body) if !may_require_input(client, &body) => Ok(body),
        outcome => {
            // Boxed like above.
            let timeouts = (timeouts.total, timeouts);
            Box::pin(more_rounds(client, method, params, timeouts, on_progress, began, outcome)).await
        }
    }
}

/// Sends the request and waits for its outcome. Sets `began` to the time of the first request.
async fn send_once(
    client: &McpClient,
    method: &Method,
    params: &dyn RoundParams,
    timeouts: Timeouts,
    on_progress: &mut Option<&mut OnProgress>,
    began: &mut Option<Instant>,
) -> Result<OwnedBody> {
    let options = options(timeouts, on_progress.is_some());
    let mut request = client.inner().connection.request(method, params, options)?;
    began.get_or_insert(request.opened_at());
    poll_fn(|cx| poll_response(&mut request, on_progress, cx)).await
}

/// Continues after the first round: recovers from its failure, or sends the request again as long as the server
/// requests input. `timeouts` are the total timeout of the call, and the timeouts of the first round.
async fn more_rounds(
    client: &McpClient,
    method: &Method,
    params: &mut dyn RoundParams,
    (total, mut timeouts): (Option<Duration>, Timeouts),
    mut on_progress: Option<&mut OnProgress>,
    mut began: Option<Instant>,
    mut outcome: Result<OwnedBody>,
) -> Result<OwnedBody> {
    // The time that the host needed to answer. It does not count toward the timeouts of the call.
    let mut asked = Duration::ZERO;
    let mut later = EMPTY_ROUND_BACKOFF;
    let mut retry = client.new_retry(method);
    for round in 0..=MAX_ROUNDS {
        let body = match outcome {
            Ok(body) => body,
            Err(error) => {
                let first = *began.get_or_insert_with(now);
                timeouts.total = match client.recover_from(&mut retry, error, timeouts, first).await {
                    Err(error) if round > 0 => return Err(in_a_later_round(method, error)),
                    left => left?,
                };
                send_once(client, method, params, timeouts, &mut on_progress, &mut began).await?
            }
        };
        let Some(required) = input_required(client, method, &body)? else { return Ok(body) };
        drop(body);
        let count = required.input_requests.as_ref().map_or(0, mcp_protocol::Map::len);
        if round == MAX_ROUNDS || count > MAX_INPUTS {
            break;
        }
        retry.handle_input_round();
        let responses = collect_responses(client, method, &required, &mut asked, &mut later).await?;
        params.set_input(responses, required.request_state);
        let used = began.map_or(Duration::ZERO, |began| now().saturating_duration_since(began));
        let used = used.saturating_sub(asked);
        timeouts.total = total.map(|total| total.saturating_sub(used));
        if timeouts.total == Some(Duration::ZERO) {
            return Err(Error::TimedOut {
                method: method.clone(),
                reason: TimeoutReason::Total,
                after: used,
                stray_line: None,
            });
        }
        outcome = send_once(client, method, params, timeouts, &mut on_progress, &mut began).await;
    }
    let problem = format!(
        "the server requested input in more than {MAX_ROUNDS} rounds, or more than {MAX_INPUTS} inputs in one round"
    );
    Err(Error::Input { method: method.clone(), error: ErrorObject::new(ErrorCode::InternalError, problem) })
}

/// Lists the tools for the transport, within the timeouts of the call. Returns what is left of the total timeout.
async fn learn(client: &McpClient, method: &Method, timeouts: Timeouts) -> Result<Option<Duration>> {
    let began = now();
    let clock = timeouts.idle.into_iter().chain(timeouts.total).min();
    let learnt = match clock {
        Some(clock) => tokio::time::timeout(clock, client.learn_tools()).await.is_ok(),
        None => {
            client.learn_tools().await;
            true
        }
    };
    let after = now().saturating_duration_since(began);
    match timeouts.total.map(|total| total.saturating_sub(after)) {
        Some(Duration::ZERO) => Err(Error::TimedOut {
            method: method.clone(),
            reason: TimeoutReason::Total,
            after,
            stray_line: None,
        }),
        _ if !learnt => Err(Error::TimedOut {
            method: method.clone(),
            reason: TimeoutReason::Idle,
            after,
            stray_line: None,
        }),
        left => Ok(left),
    }
}

impl McpClient {
    /// Parses a result that must be complete: a request for more input is an error.
    pub(super) fn complete_round<T: Raise>(&self, method: &Method, body: &OwnedBody) -> Result<T> {
        let round = Round::raise(self.dialect(), &body.body());
        match round.map_err(|error| Error::unreadable(method, &error))? {
            Round::Complete(result) => Ok(result),
            _ => Err(Error::unreadable(method, &BodyError::ResultType("input_required".to_owned()))),
        }
    }
}

fn options(timeouts: Timeouts, progress: bool) -> RequestOptions {
    RequestOptions { timeouts, progress, pauses_while_asked: true }
}

/// Polls for the response, and passes progress to the callback.
fn poll_response(
    request: &mut InFlightRequest,
    on_progress: &mut Option<&mut OnProgress>,
    cx: &mut Context<'_>,
) -> Poll<Result<OwnedBody>> {
    for _ in 0..MAX_STEPS_PER_POLL {
        match ready!(request.poll_update(cx)) {
            RequestUpdate::Done(outcome) => return Poll::Ready(outcome),
            RequestUpdate::Progress(step) => {
                if let Some(on_progress) = on_progress {
                    on_progress(step);
                }
            }
        }
    }
    // Yields, so that frequent progress cannot starve other tasks.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Converts the error of a later round: the server has already seen the request, and may have acted.
fn in_a_later_round(method: &Method, error: Error) -> Error {
    match error {
        Error::Lost { method, ended, .. } => Error::Lost { method, sent: Sent::Maybe, ended },
        Error::Busy(_) => {
            let source = ErrorObject::new(
                ErrorCode::InternalError,
                "too many requests in flight: the request that carries the requested input could not be sent",
            );
            Error::Input { method: method.clone(), error: source }
        }
        other => other,
    }
}

/// Collects the responses of the host, and adds the time that this took to `asked`. If no input is requested, waits for
/// a while and returns `None`.
async fn collect_responses(
    client: &McpClient,
    method: &Method,
    required: &InputRequiredResult,
    asked: &mut Duration,
    later: &mut Backoff,
) -> Result<Option<InputResponses>> {
    if required.input_requests.as_ref().is_none_or(|requests| requests.is_empty()) {
        tokio::time::sleep(later.pause()).await;
        later.fail(1);
        return Ok(None);
    }
    let before = now();
    let responses = ask_host(client, method, required).await?;
    *asked += now().saturating_duration_since(before);
    Ok(Some(responses))
}

/// Returns false if the result is certainly complete. Searches the text, which is cheap: most results are complete, and
/// only the caller parses them.
fn may_require_input(client: &McpClient, body: &OwnedBody) -> bool {
    client.dialect().is_modern() && body.text().contains("input_required")
}

/// Returns the request for input, or `None` if the result is complete.
fn input_required(
    client: &McpClient,
    method: &Method,
    body: &OwnedBody,
) -> Result<Option<InputRequiredResult>> {
    if !may_require_input(client, body) {
        return Ok(None);
    }
    let dialect = client.dialect();
    let unreadable = |error| Error::unreadable(method, &error);
    let whole = body.body();
    match whole.raise_member::<ResultType>("resultType").map_err(unreadable)? {
        Some(ResultType::InputRequired) => dialect.raise(&whole).map(Some).map_err(unreadable),
        _ => Ok(None),
    }
}

async fn ask_host(
    client: &McpClient,
    method: &Method,
    required: &InputRequiredResult,
) -> Result<InputResponses> {
    let inner = client.inner();
    let mut responses = InputResponses::new();
    for (key, request) in required.input_requests.iter().flat_map(|requests| requests.iter()) {
        let answer =
            inner.handlers.answer_in_time(inner.connection.terms.server.clone(), request.ask.clone()).await;
        let response = answer.map_err(|source| Error::Input { method: method.clone(), error: source })?;
        responses.insert(key.clone(), response);
    }
    Ok(responses)
}
