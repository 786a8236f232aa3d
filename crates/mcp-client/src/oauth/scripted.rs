//! An authorization server that gives scripted responses, without a network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::{HttpBody, HttpClient, HttpError, ResponseFuture};

/// The status and body of a response. A body that does not begin with `{` or `<` is a form. Status 0 is a network
/// error.
pub(super) type Scripted = (u16, &'static str);

#[derive(Clone)]
pub(super) struct Script {
    responses: Arc<Mutex<VecDeque<Scripted>>>,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Script {
    pub(super) fn new(responses: &[Scripted]) -> Self {
        Self {
            responses: Arc::new(Mutex::new(responses.iter().copied().collect())),
            requests: Arc::default(),
        }
    }

    /// Returns the requests so far: method, URL, `Accept` and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// Returns the times of the requests so far.
    pub(super) fn times(&self) -> Vec<Instant> {
        self.requests.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }
}

impl HttpClient for Script {
    fn send(&self, request: http::Request<bytes::Bytes>) -> ResponseFuture<'_> {
        let accept = request.headers().get("accept").map(|value| value.to_str().unwrap()).unwrap_or_default();
        let head = format!("{} {} {accept}", request.method(), request.uri());
        let body = String::from_utf8(request.into_body().to_vec()).unwrap();
        self.requests.lock().unwrap().push((Instant::now(), format!("{head} {body}")));
        let (status, text) = self.responses.lock().unwrap().pop_front().expect("a scripted response");
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if status == 0 {
                return Err(HttpError::maybe_sent("connection reset"));
            }
            let media_type = match text.as_bytes().first() {
                Some(b'{') => "application/json",
                Some(b'<') => "text/html",
                _ => "application/x-www-form-urlencoded",
            };
            let body = http_body_util::Full::new(bytes::Bytes::from_static(text.as_bytes()));
            let body: HttpBody = Box::pin(http_body_util::BodyExt::map_err(body, |never| match never {}));
            Ok(http::Response::builder()
                .status(status)
                .header("content-type", media_type)
                .body(body)
                .unwrap())
        })
    }
}
